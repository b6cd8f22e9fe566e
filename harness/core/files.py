"""Our own folders on the user's disk, and files that are written completely or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from harness.core.errors import EnvironmentProblem, Sentence, UsageError
from harness.core.message import Message, message

DATA = "BREAKLAB_DATA"
"""The environment variable with the progress file's folder; by default the user's data folder."""


def cache_folder() -> Path:
    """Return the folder of the store, which has patched sources, and of submissions' copies."""
    return user_cache_path("breaklab")


def data_folder() -> Path:
    """Return the folder of the learner's progress."""
    folder = os.environ.get(DATA)
    return Path(folder) if folder else user_data_path("breaklab", appauthor=False)


# ----- Files that are written for a user: completely, or not at all -----

READABLE, PRIVATE = 0o666, 0o600
"""The permissions of a new file, before the umask: for everyone, or for its owner only."""

_FREE_SPACE = "free some space, or name a file in a folder that exists and is writable"


def write_file(path: Path, content: str | bytes, permissions: int = READABLE) -> None:
    """Replace a file as a whole: it keeps its old content if the new one cannot be written.

    The content goes to another file in the same folder, which is then renamed. An existing file
    keeps its permissions, and a symbolic link its target. A pipe, a device, or a file that is open
    as a descriptor of this process (`/dev/stdout`) is written to directly.

    Raises EnvironmentProblem if the file cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        old = path.stat() if path.exists() else None
        if old and (descriptor := _open_descriptor(old)) is not None:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            _write_all(os.dup(descriptor), data)
        elif old and not stat.S_ISREG(old.st_mode):
            _write_all(os.open(path, os.O_WRONLY), data)
        elif old and not os.access(path, os.W_OK):
            raise unwritable(path, message("permission denied"))
        else:
            _replace(path.resolve(), data, permissions, old)
    except (OSError, ValueError, RuntimeError) as error:  # a null character; a loop of links
        raise unwritable(path, error) from None


def write_new(path: Path, content: str | bytes, remedy: Sentence) -> None:
    """Write a new file; nothing is left of one that cannot be written completely.

    Raises UsageError, with this remedy, if there is anything at the path, and EnvironmentProblem if
    it cannot be written.
    """
    try:
        if os.path.lexists(path):
            raise FileExistsError
        _create(path, content.encode() if isinstance(content, str) else content)
    except FileExistsError:
        raise UsageError(message("{path} already exists", path=path), remedy) from None
    except FileNotFoundError:
        raise EnvironmentProblem(
            message("there is no folder {folder}", folder=path.parent),
            "name a file in a folder that exists and is writable",
        ) from None
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, why: Exception | Message) -> EnvironmentProblem:
    """Return the error of a file or folder that cannot be written, and why."""
    reason = getattr(why, "strerror", None) or why
    problem = message("{path} cannot be written: {reason}", path=path, reason=reason)
    return EnvironmentProblem(problem, _FREE_SPACE)


@contextmanager
def _draft(path: Path, data: bytes, permissions: int) -> Iterator[Path]:
    """Write another file in the same folder, and remove it at the end unless it was renamed."""
    draft = path.with_name(f".breaklab-{os.urandom(8).hex()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
        _write_all(descriptor, data, complete=True)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _create(path: Path, data: bytes) -> None:
    """Give the draft its name, which no other process may have taken meanwhile."""
    with _draft(path, data, READABLE) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # this file system has no hard links
            path.open("xb").close()
            draft.replace(path)


def _replace(path: Path, data: bytes, permissions: int, old: os.stat_result | None) -> None:
    with _draft(path, data, permissions) as draft:
        if old:
            with suppress(OSError):  # only the administrator may change the owner of a file
                os.chown(draft, old.st_uid, old.st_gid)
            draft.chmod(stat.S_IMODE(old.st_mode))
        draft.replace(path)


def _write_all(descriptor: int, data: bytes, *, complete: bool = False) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if complete:
            file.flush()
            os.fsync(descriptor)


def _open_descriptor(info: os.stat_result) -> int | None:
    """Return a descriptor of this process on which that file is open for writing; else None."""
    folder = Path("/dev/fd")
    numbers = sorted(int(entry.name) for entry in folder.iterdir()) if folder.is_dir() else (1, 2)
    for number in numbers:
        with suppress(OSError):  # it is closed, or only open for reading
            if os.path.samestat(os.fstat(number), info):
                os.write(number, b"")
                return number
    return None
