"""The folder with the results of a cohort.

cohort.json        the secret seed, and everything else that the results depend on
submissions.json   the submissions, with their digests, as the last run found them
results*.jsonl     one line for each submission; see `ledger`; a shard has its own file
scores.csv, missed.md
feedback/          a file for each submission, if wanted
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core.errors import EnvironmentProblem, UsageError
from harness.core.message import message
from harness.core.writing import PRIVATE, unwritable, write_file
from harness.grade.cohort.grader import differing

_LONGEST_NAME = 255
"""Bytes in the name of a file."""

CONDITIONS, ROSTER = "cohort.json", "submissions.json"

Stored = TypeVar("Stored")


class Conditions(msgspec.Struct, frozen=True):
    """What all results in a folder have in common."""

    schema: int
    seed: str
    """Secret, in hexadecimal digits: with it, a suite could tell a break from correct code."""
    settings: dict[str, str]
    """A value or digest for each thing that a result depends on, by its name."""


Roster = dict[str, str]
"""The digest of each submission, by name."""


def stored_seed(out: Path) -> bytes | None:
    """Return the seed in the results folder; None if nothing has been graded into it."""
    stored = _read(out / CONDITIONS, Conditions)
    return None if stored is None else bytes.fromhex(stored.seed)


def enter(out: Path, seed: bytes, settings: Mapping[str, str]) -> None:
    """Make the folder, or check that its results were made under the same conditions.

    Raises UsageError if they were not, and EnvironmentProblem if it cannot be written.
    """
    conditions = Conditions(1, seed.hex(), dict(settings))
    try:
        out.mkdir(parents=True, exist_ok=True)
        draft = out / f".draft-{os.urandom(8).hex()}"
        write_file(draft, msgspec.json.format(msgspec.json.encode(conditions)), PRIVATE)
        with suppress(FileExistsError):  # of an earlier run, or of a shard that began just now
            os.link(draft, out / CONDITIONS)
        draft.unlink()
    except OSError as error:
        raise unwritable(out, error) from None
    require_same(conditions, conditions_in(out), out)


def conditions_in(out: Path) -> Conditions:
    """Return the conditions of the results in a folder. Raises UsageError if there are none."""
    stored = _read(out / CONDITIONS, Conditions)
    if stored is None:
        problem = message("there are no results of a cohort in {folder}", folder=out)
        raise UsageError(problem, "name the folder that was given as --out")
    return stored


def require_same(expected: Conditions, found: Conditions, out: Path) -> None:
    """Raise UsageError, which names what differs, if the results must not be mixed."""
    changed = differing(expected.settings, found.settings)
    if expected.seed != found.seed:
        changed.append("the secret seed")
    if changed:
        problem = message(
            "the results in {folder} were made under other conditions: {conditions}",
            folder=out,
            conditions=", ".join(changed),
        )
        remedy = "grade everything again into a new --out folder, or restore what has changed"
        raise UsageError(problem, remedy)


def write_roster(out: Path, roster: Roster) -> None:
    """Store the list of submissions. Raises EnvironmentProblem."""
    write_file(out / ROSTER, msgspec.json.format(msgspec.json.encode(roster)), PRIVATE)


def roster_in(out: Path) -> Roster:
    """Return the list of submissions."""
    return _read(out / ROSTER, Roster) or {}


def feedback_file(out: Path, submission: str, suffix: str) -> Path:
    """Return the file for the feedback on a submission, in a folder that exists afterwards."""
    folder = out / "feedback"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    if len(f"{submission}{suffix}".encode()) > _LONGEST_NAME:
        start = submission.encode()[: _LONGEST_NAME - 50].decode(errors="ignore")
        digest = hashlib.sha256(submission.encode()).hexdigest()
        submission = f"{start}-{digest[:16]}"
    return folder / f"{submission}{suffix}"


def result_files(out: Path) -> Sequence[Path]:
    """Return the files with results, those of all shards."""
    return sorted(out.glob("results*.jsonl"))


def _read(file: Path, kind: type[Stored]) -> Stored | None:
    """Return the table in a file; None if there is none. Raises EnvironmentProblem."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        remedy = "restore it from a copy, or grade again into a new --out folder"
        problem = message("{path} cannot be read: {reason}", path=file, reason=error)
        raise EnvironmentProblem(problem, remedy) from None
