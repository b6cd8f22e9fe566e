"""Scratch folders: the only place on the disk where a confined child may write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PREFIX = "breaklab-"


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it with its contents at the end."""
    folder = make_scratch_folder(parent)
    try:
        yield folder
    finally:
        remove_folder(folder)


def make_scratch_folder(parent: Path | None = None) -> Path:
    """Make a temporary folder, which the caller must remove."""
    _remove_abandoned_once(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def empty_folder(folder: Path) -> None:
    """Remove everything in a folder, however deeply nested, without following symbolic links.

    If the folder itself has been removed or replaced by a link, create it again.
    """
    pending = [folder]
    with contextlib.suppress(OSError):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            folder.mkdir(0o700)
        folder.chmod(0o700)
        for current in pending:
            with os.scandir(current) as listed:
                entries = list(listed)
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    path.chmod(0o700)
                    # Move it to the top, so that no path gets too long.
                    pending.append(path.rename(folder / os.urandom(8).hex()))
                else:
                    path.unlink()
        for current in reversed(pending[1:]):
            current.rmdir()


def remove_folder(folder: Path) -> None:
    """Remove a folder and its contents."""
    empty_folder(folder)
    with contextlib.suppress(OSError):
        folder.rmdir()


def remove_own() -> None:
    """Remove all scratch folders of this process, at its end."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{os.getpid()}-*"):
        remove_folder(folder)


@cache
def _remove_abandoned_once(parent: Path | None) -> None:
    remove_abandoned(parent)


def remove_abandoned(parent: Path | None = None) -> None:
    """Remove the folders of processes that were killed before they could remove them."""
    if not Path("/proc/self").exists():
        return
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and _has_ended(int(owner)):
            remove_folder(folder)


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, even if its parent or init has not reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
