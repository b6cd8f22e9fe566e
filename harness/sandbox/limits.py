"""What a child process may use: limits that the kernel enforces, an environment, a scratch folder.

The limits hold on every POSIX system; see setrlimit(2). On Windows only `Limits.seconds` is
enforced. The scratch folder is the only place on the disk where a confined child may write.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from harness.core import PACKAGES
from harness.core.files import cache_folder, data_folder

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

WITHOUT_FORK = "BREAKLAB_WITHOUT_FORK"
"""An environment variable; if it is set, processes are started as on a system without `fork`."""

FORKS = hasattr(os, "fork") and not os.environ.get(WITHOUT_FORK)
"""Whether this process can fork: not on Windows."""

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What a child may use."""

    seconds: float = 60.0
    """Wall-clock seconds for each requested frame: this also ends a child that waits."""
    cpu_seconds: float = 3
    """Seconds of processor time for each requested frame; see `restart_cpu_limit` for rounding."""
    memory: int = 2048 * _MIB
    """Bytes of address space, in addition to what the child starts with."""
    file_size: int = 16 * _MIB
    """Bytes in one file, and in the whole scratch folder if it can be confined."""
    open_files: int = 128
    processes: int = 64
    """Processes and threads that may be started in total, not counting a few for each core."""
    namespaces: bool = True
    """Whether to use Linux namespaces where the kernel grants them."""
    visible: tuple[str, ...] = ()
    """Folders and files that the child sees in namespaces, besides Python and what is installed."""
    hidden: tuple[str, ...] = ()
    """What looks empty to it, if it is in a folder that it sees."""

    @property
    def total_processes(self) -> int:
        """`processes`, plus those for NumPy's linear algebra: a few threads for each core."""
        return self.processes + 4 * (os.cpu_count() or 1)


ALLOWED_VARIABLES = {
    *(WITHOUT_FORK, "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT"),
    *(f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL")),
}
"""The environment variables that a child inherits."""


def child_environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a new interpreter that works in the folder `scratch`.

    Its import path is that of this process. `/proc` shows the environment that a process was
    started with, so the user's variables must be absent from the start.
    """
    inherited = {name: os.environ[name] for name in ALLOWED_VARIABLES if name in os.environ}
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    return inherited | folders | {"PYTHONPATH": path}


def limit_resources(limits: Limits) -> None:
    """Limit the memory, files and processes of this process; its children cannot raise them."""
    if resource is None:
        return
    with contextlib.suppress(OSError):  # without /proc, the address space is not limited
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _set(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + limits.memory)
    _set(resource.RLIMIT_FSIZE, limits.file_size)
    _set(resource.RLIMIT_NOFILE, limits.open_files)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_NPROC, limits.total_processes)


def restart_cpu_limit(limits: Limits) -> None:
    """Allow this process `cpu_seconds` from now on; then the kernel ends it with SIGXCPU.

    The kernel limits a process's total processor time in whole seconds, so it is rounded up.
    """
    if resource is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + limits.cpu_seconds)
    with contextlib.suppress(ValueError, OSError):  # above a hard limit that was already set
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def end_after(cpu_seconds: float) -> None:
    """Have SIGPROF end this process after this much more processor time.

    Unlike the limit of `restart_cpu_limit`, this one can be lifted by the code that runs here.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)


def _set(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, value))


# ----- What no child sees -----


def hiding_own_folders(limits: Limits) -> Limits:
    """Return the limits of a child that sees neither the store nor the learner's progress."""
    with contextlib.suppress(OSError):
        # A folder is hidden only if it exists: another process may create the store at any time.
        cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return replace(limits, hidden=tuple(dict.fromkeys((*limits.hidden, *_own(limits)))))


def _own(limits: Limits) -> Iterator[str]:
    needed = [PACKAGES, *map(Path, (sys.prefix, sys.base_prefix, *limits.visible))]
    needed.append(Path(tempfile.gettempdir()))
    for folder in (cache_folder().resolve(), data_folder().resolve()):
        if any(path.resolve().is_relative_to(folder) for path in needed):
            yield from map(str, sorted(folder.glob("*.sqlite*")))  # the folder has other files, too
        else:
            yield str(folder)


# ----- Scratch folders -----

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
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)).resolve()


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
