"""The submissions in a folder: each is a Python file, or a folder with files."""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.message import message
from harness.core.vocabulary import visible

LARGEST = 8 * 1024 * 1024
"""Bytes in all files of a submission."""

MOST_FILES = 1000
"""The number of files in a submission."""

_IGNORED = {"__pycache__", "__MACOSX"}
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


class Unreadable(Exception):
    """A submission that cannot be read; the message says why, for its author."""


@dataclass(frozen=True)
class Submission:
    """A submission, as it is found in the folder."""

    name: str
    """The name of the file or folder, with invisible characters escaped."""
    path: Path
    digest: str
    """Of the names and contents of its files, or of the problem."""
    problem: str = ""
    """Why it cannot be graded; empty if its files can be read."""


def find_submissions(folder: Path, out: Path) -> list[Submission]:
    """Return the submissions in a folder, sorted by name, without the folder of the results.

    Hidden files are not submissions. Raises UsageError if there is none.
    """
    try:
        paths = [path for path in folder.iterdir() if _is_submission(path, out)]
    except OSError as error:
        problem = message(
            "the submissions in {folder} cannot be read: {error}",
            folder=folder,
            error=error.strerror or error,
        )
        remedy = "name the folder that contains one file or folder for each submission"
        raise UsageError(problem, remedy) from None
    if not paths:
        remedy = "put one Python file or one folder for each submission into it"
        raise UsageError(message("there is no submission in {folder}", folder=folder), remedy)
    people = Counter(_person(path) for path in paths)
    found = [_submission(path, people[_person(path)]) for path in paths]
    return sorted(found, key=lambda submission: submission.name)


def _is_submission(path: Path, out: Path) -> bool:
    hidden = path.name.startswith(".") or path.name in _IGNORED
    return not hidden and path.resolve() != out.resolve()


def _person(path: Path) -> str:
    """Return the name of the submission in a list of people."""
    return unicodedata.normalize("NFC", path.name.removesuffix(".py"))


def _submission(path: Path, namesakes: int) -> Submission:
    # A backslash is escaped too, so that two names never become one.
    name = visible(os.fsencode(path.name.replace("\\", "\\\\")).decode(errors="backslashreplace"))
    name = name.replace("\n", "\\n").replace("\t", "\\t")
    problem, digest = "", ""
    if namesakes > 1:
        person = visible(_person(path).encode(errors="backslashreplace").decode())
        problem = f"{namesakes} submissions are called `{person}`: only one may be handed in"
    else:
        try:
            digest = digest_of(read_files(path))
        except Unreadable as unreadable:
            problem = str(unreadable)
    return Submission(name, path, digest or digest_of({"": problem.encode()}), problem)


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return a digest of names and contents."""
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        for part in (name.encode(), data):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


# ----- The files of one submission -----


def read_files(path: Path) -> dict[str, bytes]:
    """Return the content of each file of a submission, by its path below the submissions' folder.

    Raises Unreadable if there is anything but regular files and folders, so that a submission
    cannot name files of others, or if a file cannot be read or is too large.
    """
    files: dict[str, bytes] = {}
    size = 0
    if path.suffix != ".py" and not path.is_dir() and not path.is_symlink():
        raise Unreadable("it is neither a Python file nor a folder")
    for file in _files(path):
        name = file.relative_to(path.parent).as_posix()
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Unreadable(f"the name of `{_shown(file, path)}` is not UTF-8") from None
        files[name] = _read(file, _shown(file, path))
        size += len(files[name])
        if size > LARGEST:
            raise Unreadable(f"its files have more than {LARGEST // 1024**2} MiB")
        if len(files) > MOST_FILES:
            raise Unreadable(f"it has more than {MOST_FILES} files")
    if not files:
        raise Unreadable("the folder is empty")
    return files


def _files(path: Path) -> Iterator[Path]:
    """Yield the files in a folder, in any order, or the file itself."""
    pending = [path]
    while pending:
        current = pending.pop()
        try:
            mode = current.lstat().st_mode
            inside = list(current.iterdir()) if stat.S_ISDIR(mode) else []
        except OSError as error:
            problem = f"`{_shown(current, path)}` cannot be read: {error.strerror}"
            raise Unreadable(problem) from None
        if stat.S_ISLNK(mode):
            shown = _shown(current, path)
            raise Unreadable(f"`{shown}` is a symbolic link; hand in the file itself")
        if not stat.S_ISDIR(mode):
            yield current
        pending += [entry for entry in inside if entry.name not in _IGNORED]


def _read(file: Path, shown: str) -> bytes:
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | _NOT_BLOCKING), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise Unreadable(f"`{shown}` is not a regular file")
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise Unreadable(f"`{shown}` cannot be read: {error.strerror}") from None


def _shown(file: Path, path: Path) -> str:
    name = file.relative_to(path.parent).as_posix()
    return visible(os.fsencode(name).decode(errors="backslashreplace")).replace("\n", "\\n")
