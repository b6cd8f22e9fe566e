"""The files of a submission, and why they may be refused; nothing is executed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from harness.core.message import visible


@dataclass(frozen=True)
class Said:
    """Text that a run may have chosen, and what a student reads in its place."""

    text: str
    shown: str


class NotGradable(Exception):
    """The suite cannot be graded; the message says why.

    `template` is our own sentence, and the arguments are our own words as well, unless they are
    `Said`.
    """

    def __init__(self, template: str, **arguments: Said | str | int) -> None:
        whole = {k: v.text if isinstance(v, Said) else v for k, v in arguments.items()}
        stated = {k: v.shown if isinstance(v, Said) else v for k, v in arguments.items()}
        super().__init__(template.format(**whole))
        self.stated = template.format(**stated)
        """The message that a student may read."""


# ----- Reading -----

LARGEST = 8 * 1024 * 1024
"""Bytes in all files of a submission."""

MOST_FILES = 1000
"""The number of files and folders in a submission."""

_CONFTEST = "conftest.py"

SETTINGS_FILES = "pytest.toml", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"
"""The files in which pytest looks for settings, in its order; hidden files are left out."""

_PATTERNS = "test_*.py", "*_test.py"
_NOT_SEARCHED = "build", "dist", "venv", "CVS", "_darcs", "{arch}", "*.egg"
"""The folders in which pytest does not look for tests, of those that belong to a submission."""
_NO_PART = {"__pycache__", "__MACOSX", "node_modules"}
_ENVIRONMENT = "pyvenv.cfg"
"""A folder with this file is a virtual environment."""

_MOST_LEFT_OUT = 100
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class SubmittedFiles:
    """The files of a submission: all of a folder, or a single file without those beside it."""

    name: str
    """The name of the folder or file."""
    files: dict[str, bytes]
    """By their path below the folder. An empty folder is included, with a `/` at its end."""
    left_out: list[str] = field(default_factory=list)
    """What was found in the folder and does not belong to the submission."""
    is_file: bool = False
    beside: frozenset[str] = frozenset()
    """The modules beside a single file, which is graded without them."""

    @property
    def folder(self) -> str:
        """The name of the folder in which the files are written for the tests.

        It is that of the submission where tests may import the folder as a package.
        """
        return self.name if self.name.isidentifier() and not self.is_file else "submission"

    def without_conftest(self) -> SubmittedFiles:
        """Return the submission without its files `conftest.py`."""
        kept = {n: data for n, data in self.files.items() if n.rpartition("/")[2] != _CONFTEST}
        if len(kept) == len(self.files):
            return self
        note = f"{_CONFTEST} (because of --no-conftest)"
        return replace(self, files=kept, left_out=[*self.left_out, note])

    def tests(self) -> list[str]:
        """Return the paths of the files with tests, by the names that pytest usually looks for.

        Raises NotGradable if there is none and no file could have settings with other names.
        """
        names = [name for name in self.files if self.is_file or _has_tests(name)]
        if not names and self.files.keys().isdisjoint(SETTINGS_FILES):
            raise NotGradable("there is no file test_*.py or *_test.py in it")
        for name in names:
            if "::" in name:
                raise NotGradable("pytest cannot load a file named `{name}`: rename it", name=name)
            if self.is_file and not name.endswith(".py"):
                raise NotGradable(
                    "`{name}` is not a Python file; unpack an archive, and name its folder",
                    name=visible(name),
                )
        return names


def read_submission(path: Path) -> SubmittedFiles:
    """Return the files of a folder, or a single file.

    A symbolic link is read if it leads to a file of the same folder. Raises NotGradable for any
    other one, so that a submission cannot name files of others, for what is neither a file nor a
    folder, and for a file that cannot be read or is too large.
    """
    if not path.is_dir():
        name = path.name
        beside = frozenset() if path.is_symlink() else _modules_beside(path)
        return SubmittedFiles(name, {_utf8(name): _read(path, name)}, [], True, beside)
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    size = 0
    for file in _files(path, left_out):
        name = _utf8(file.relative_to(path).as_posix())
        if file.is_dir() and not file.is_symlink():
            files[f"{name}/"] = b""
            continue
        files[name] = _read(_inside(file, path), name)
        size += len(files[name])
        if size > LARGEST:
            raise NotGradable("its files are larger than {most} MiB", most=LARGEST // 1024**2)
    if not files:
        raise NotGradable("the folder is empty")
    parents = {f"{parent}/" for name in files for parent in PurePosixPath(name).parents}
    files = {name: data for name, data in files.items() if name not in parents}
    return SubmittedFiles(path.name, dict(sorted(files.items())), sorted(left_out))


def _has_tests(name: str) -> bool:
    *folders, file = name.split("/")
    found = any(fnmatchcase(file, pattern) for pattern in _PATTERNS)
    return found and not any(fnmatchcase(f, p) for f in folders for p in _NOT_SEARCHED)


def _modules_beside(path: Path) -> frozenset[str]:
    try:
        entries = sorted(path.parent.iterdir())[:MOST_FILES]
    except OSError:
        return frozenset()
    return frozenset(
        entry.stem for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").exists()
    )


def _files(folder: Path, left_out: list[str]) -> Iterator[Path]:
    """Yield the files and folders in a folder, in any order, and record what is left out."""
    pending, count = [folder], 0
    while pending:
        current = pending.pop()
        shown = _shown(current.relative_to(folder))
        try:
            mode = current.lstat().st_mode
            inside = list(current.iterdir()) if stat.S_ISDIR(mode) else []
        except OSError as error:
            raise _unreadable(shown, error) from None
        if current != folder and _is_left_out(current, inside):
            if len(left_out) < _MOST_LEFT_OUT:
                left_out.append(f"{shown}/" if stat.S_ISDIR(mode) else shown)
            continue
        count += 1
        if count > MOST_FILES + 1:
            raise NotGradable("it has more than {most} files and folders", most=MOST_FILES)
        if current != folder or not stat.S_ISDIR(mode):
            yield current
        pending += inside


def _is_left_out(path: Path, inside: Sequence[Path]) -> bool:
    """Whether something is hidden, a cache, or a virtual environment."""
    hidden = path.name.startswith(".") or path.name in _NO_PART
    return hidden or any(entry.name == _ENVIRONMENT for entry in inside)


def _inside(file: Path, folder: Path) -> Path:
    """Return the file that a link in a submission leads to, if that belongs to the submission."""
    if not file.is_symlink():
        return file
    try:
        target, folder = file.resolve(strict=True), folder.resolve()
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        return file
    return target if target.is_relative_to(folder) and target.is_file() else file


def _read(file: Path, name: str) -> bytes:
    shown = visible(name)
    if file.is_symlink():
        raise NotGradable("`{name}` is a symbolic link; hand in the file itself", name=shown)
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | _NOT_BLOCKING), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise NotGradable("`{name}` is not a regular file", name=shown)
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise _unreadable(shown, error) from None
    if len(data) > LARGEST:
        raise NotGradable("its files are larger than {most} MiB", most=LARGEST // 1024**2)
    return data


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, by their path below a folder; a path with `/` at its end is an empty folder."""
    for name, data in files.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def written_files(folder: Path) -> dict[str, bytes]:
    """Return what `write_files` writes to make the regular files and folders of a folder again.

    Compiled files and what cannot be read are left out.
    """
    files: dict[str, bytes] = {}
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        below = Path(current).relative_to(folder).as_posix() + "/"
        if not folders and not names:
            files[below] = b""
        for path in map(Path(current).joinpath, names):
            with suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode):
                    files[below + path.name] = path.read_bytes()
    return files


def _unreadable(shown: str, error: OSError) -> NotGradable:
    reason = error.strerror or "it is not accessible"
    return NotGradable("`{name}` cannot be read: {reason}", name=shown, reason=reason)


def _utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise NotGradable("the name of `{name}` is not UTF-8", name=_shown(Path(name))) from None
    return name


def _shown(path: Path) -> str:
    text = os.fsencode(path.as_posix()).decode(errors="backslashreplace")
    return visible(text).replace("\n", "\\n")
