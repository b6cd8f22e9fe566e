"""Whether an engine has opened files that are not in the key of its cached results.

The key contains the text of the engine's source files, and identifies Python and the installed
packages. What the system has installed, such as fonts and time zones, is taken as given. The key
does not cover a table of constants, a compiled kernel or a module in another folder, so a result
that depends on such a file must not be cached. Code that hides what it reads is not detected.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.core import PACKAGES

_PATH_ARGUMENT = {"open": 0, "import": 1, "ctypes.dlopen": 0, "sqlite3.connect": 0}
"""The position of a file's path in the arguments of audit events."""

_COMMANDS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
"""Audit events of programs, such as a compiler, that may read the files they are called with."""

_SYSTEM = (
    *("/dev/", "/proc/", "/sys/", "/etc/", "/bin/", "/sbin/", "/lib/", "/lib64/"),
    *("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/lib64/", "/usr/share/"),
    *("/System/", "/Library/Fonts/"),
)
"""The folders of the system itself. People install their own files elsewhere."""

_ZIPPED = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
"""The standard library as one file; imports look for it even if it does not exist."""


class OtherFiles:
    """Records whether this process opens files that are neither installed nor engine sources."""

    def __init__(self, root: Path, sources: Iterable[str]) -> None:
        """`sources` are the engine's files, as paths below `root`."""
        sources = list(sources)
        tops = {file.partition("/")[0] for file in sources if "/" in file}
        self._sources = {str(root / file) for file in sources}
        self._packages = tuple(_prefix(root / top) for top in tops)
        here = Path.cwd()  # the scratch folder; the environment may name it by a link
        scratch = here, os.environ.get("TMPDIR", here)
        self._known = (*_INSTALLED, *map(_prefix, scratch), *_SYSTEM)
        self.opened = False

    def watch(self) -> None:
        """Watch this process and its forks, until they end."""
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.opened:
            return
        if event in _PATH_ARGUMENT:
            path = arguments[_PATH_ARGUMENT[event]]
            if isinstance(path, str | bytes | os.PathLike):  # not a file descriptor or None
                self.opened = not self._is_known(path)
        elif event in _COMMANDS:
            self.opened = not all(map(self._is_known, _named(arguments)))

    def _is_known(self, path: str | bytes | os.PathLike[str]) -> bool:
        try:
            name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  installed files may be links
        except (OSError, ValueError):
            return False
        if name in self._sources:
            return True
        inside = f"{name}{os.sep}"  # a temporary file may be opened by its folder alone
        return inside.startswith(self._known) and not inside.startswith(self._packages)


def _named(arguments: Iterable[object]) -> Iterator[str]:
    """Yield the working folder and the absolute paths in the arguments of a command's event."""
    yield os.curdir
    for argument in arguments:
        for word in argument if isinstance(argument, list | tuple) else [argument]:
            if isinstance(word, str | bytes | os.PathLike):  # or the environment, or nothing
                yield from filter(os.path.isabs, os.fsdecode(word).split())


def _installed() -> set[str]:
    """Return the folders of Python's library, of installed packages and of our own."""
    folders = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    ends = "-packages", "lib-dynload", _ZIPPED
    folders |= {Path(entry) for entry in sys.path if entry.endswith(ends)}
    folders |= {PACKAGES / "harness", PACKAGES / "minigrad"}
    folders |= {folder.resolve() for folder in folders}  # a library may resolve its own path
    return set(map(_prefix, folders))


def _prefix(folder: Path | str) -> str:
    return f"{folder}{os.sep}"


_INSTALLED = _installed()
"""Looked up once, in the host: doing it in each fork would copy hundreds of pages of memory."""
