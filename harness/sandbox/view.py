"""What a confined child sees of the file system: a list of folders and files, and nothing else.

The list contains Python and what is installed for it, the libraries of the system, and what a task
needs (`Limits.visible`), such as the engine's folder. `harness.sandbox.confinement` mounts it.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from enum import Enum
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from harness.core import PACKAGES

_SYSTEM = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"),
    *("/usr/libexec", "/usr/include", "/usr/share/locale", "/usr/share/zoneinfo"),
    *("/usr/local/lib", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/timezone"),
    *("/etc/os-release", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
"""Programs, libraries, and the files they read. The C library looks up users in `/etc/passwd`."""

_OF_PYTHON = ("bin", "lib", "lib32", "lib64", "include", "share/zoneinfo", "pyvenv.cfg")
"""What belongs to Python in a prefix: the folder may also contain a whole project."""

_OURS = ("harness", "minigrad")
"""Our packages that a child imports. It receives pages and probes as text."""

NOT_NEEDED = (str(PACKAGES / "breaks"),)
"""What no child sees, even if it is in a folder that a child needs."""

_MOST_LINKS = 40


class Exposure(Enum):
    """What a path of a view is, if it is not a symbolic link."""

    FOLDER = "a folder on the way to another path"
    EXPOSED = "the folder or file itself, with everything in it"


class View:
    """The folders and files that a process sees, in the order in which they are to be mounted."""

    def __init__(self, steps: dict[str, Exposure | str] | None = None) -> None:
        self.steps = {} if steps is None else steps
        """What each path is; a string is the target of a symbolic link."""

    def copy(self) -> View:
        """Return a copy of this view, to which more can be added."""
        return View(dict(self.steps))

    def add(self, path: str | Path) -> None:
        """Add a folder or a file, and the symbolic links on the way to it; ignore what is missing.

        The path must be absolute.
        """
        pending, place, links = _parts(str(path)), "", 0
        while pending:
            name = pending.pop()
            if name == "..":
                place = place.rpartition("/")[0]
                continue
            place = f"{place}/{name}"
            if self.steps.get(place) is Exposure.EXPOSED:
                return
            try:
                mode = os.lstat(place).st_mode
                link = str(Path(place).readlink()) if stat.S_ISLNK(mode) else None
            except OSError:
                return
            if link is not None:
                self.steps[place] = link
                pending += _parts(link)
                place = "" if link.startswith("/") else place.rpartition("/")[0]
                links += 1
                if links > _MOST_LINKS:
                    return
            elif pending:
                self.steps.setdefault(place, Exposure.FOLDER)
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISCHR(mode):
                inside = f"{place}/"
                for path in [path for path in self.steps if path.startswith(inside)]:
                    del self.steps[path]
                self.steps[place] = Exposure.EXPOSED


def _parts(path: str) -> list[str]:
    """Return the parts of a path in reverse order."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def installed() -> View:
    """Return the view that contains this interpreter and everything that it can import."""
    view = View()
    for path in (*_SYSTEM, *_of_python(), *_importable()):
        view.add(path)
    return view


def not_whole() -> set[str]:
    """Return folders that are not shown as a whole just because one file in them is needed."""
    folders = [Path.home(), Path(tempfile.gettempdir())]
    if not PACKAGES.name.endswith("-packages"):  # a clone of our repository
        folders.append(PACKAGES)
    return {str(place) for folder in folders for place in (folder, folder.resolve())}


def _of_python() -> Iterator[str]:
    for prefix in dict.fromkeys((sys.base_prefix, sys.base_exec_prefix, sys.prefix)):
        yield from (f"{prefix}/{name}" for name in _OF_PYTHON)
    yield from (folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder)


def _importable() -> Iterator[str]:
    """Yield whole folders of installed packages, and only the modules of any other folder."""
    yield from (str(PACKAGES / name) for name in _OURS)
    apart = not_whole()
    for folder in map(Path.absolute, map(Path, sys.path)):
        if folder.name.endswith("-packages") or not folder.is_dir():
            yield str(folder)
            yield from _linked(folder)
        elif str(folder) not in apart:
            yield from _modules(folder)
    for finder in sys.meta_path:  # of editable installations
        module = sys.modules.get(getattr(finder, "__module__", ""))
        yield from map(str, getattr(module, "MAPPING", {}).values())


def _linked(folder: Path) -> Iterator[str]:
    """Yield the packages that are links to other folders."""
    return (entry.path for entry in _entries(folder) if entry.is_symlink())


def _modules(folder: Path) -> Iterator[str]:
    """Yield the modules and packages in a folder."""
    endings = (".py", *EXTENSION_SUFFIXES)
    for entry in _entries(folder):
        if entry.name.endswith(endings) or Path(entry, "__init__.py").is_file():
            yield entry.path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
