"""The submissions in a folder: each is a Python file, or a folder with files."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.message import message
from harness.core.vocabulary import visible
from harness.grade.files import SubmittedFiles, read_submission
from harness.grade.refusal import NotGradable

_IGNORED = {"__pycache__", "__MACOSX"}


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
            digest = digest_of(read_files(path).files)
        except NotGradable as unreadable:
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


def read_files(path: Path) -> SubmittedFiles:
    """Return the files of a submission. Raises NotGradable if they cannot be graded."""
    if path.is_symlink():
        raise NotGradable(
            "`{name}` is a symbolic link; hand in the file itself", name=visible(path.name)
        )
    if path.suffix != ".py" and not path.is_dir():
        raise NotGradable("it is neither a Python file nor a folder")
    return read_submission(path)
