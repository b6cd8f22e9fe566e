"""Merging the results of shards that were graded into folders of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.message import message
from harness.grade.cohort.folder import (
    Roster,
    conditions_in,
    enter,
    require_same,
    result_files,
    roster_in,
    write_roster,
)
from harness.grade.cohort.ledger import Ledger, ResultReader, SubmissionResult
from harness.grade.cohort.run import WHOLE, graded_in


def merge(folders: Sequence[Path], out: Path) -> Roster:
    """Copy the results in several folders into one, and return the list of submissions.

    Raises UsageError unless all were made under the same conditions from the same submissions.
    """
    first, *others = folders
    conditions, roster = conditions_in(first), roster_in(first)
    for folder in others:
        require_same(conditions, conditions_in(folder), folder)
        _require_same_roster(roster, roster_in(folder), folder)
    enter(out, bytes.fromhex(conditions.seed), conditions.settings)
    with Ledger(out / WHOLE.file) as ledger:
        write_roster(out, roster)
        done = graded_in(out, roster)
        ledger.append(_results(folders, out, roster, done))
    return roster


def _require_same_roster(expected: Roster, found: Roster, folder: Path) -> None:
    if expected == found:
        return
    names = sorted(expected.items() ^ found.items())
    problem = message(
        "the results in {folder} are of other submissions: `{submission}` differs",
        folder=folder,
        submission=names[0][0],
    )
    raise UsageError(
        problem,
        "grade every shard again with the same folder of submissions; what is unchanged is kept",
    )


def _results(
    folders: Sequence[Path], out: Path, roster: Roster, done: set[str]
) -> Iterator[SubmissionResult]:
    """Yield one final result for each submission that has none in `out`; others if it has none."""
    reader = ResultReader(SubmissionResult)
    for folder in folders:
        if folder.resolve() == out.resolve():
            continue
        for file in result_files(folder):
            for result in reader.read(file):
                valid = roster.get(result.submission) == result.digest
                if valid and result.submission not in done:
                    if result.final:
                        done.add(result.submission)
                    yield result
