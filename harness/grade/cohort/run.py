"""Grading a cohort: submissions without a result are graded, and each result is stored at once.

So a run can be stopped or killed at any moment, and the same command continues it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.core.errors import UsageError
from harness.core.message import message
from harness.grade.cohort.folder import (
    CONDITIONS,
    Roster,
    enter,
    result_files,
    stored_seed,
    write_roster,
)
from harness.grade.cohort.grader import Grader, GraderOpening, rejection
from harness.grade.cohort.ledger import Ledger, ResultHeader, ResultReader, SubmissionResult
from harness.grade.cohort.pool import GradingOutcome, GradingTask, LocalPool
from harness.grade.cohort.submissions import (
    Submission,
    digest_of,
    find_submissions,
    read_files,
)
from harness.grade.refusal import NotGradable

SubmissionProgress = Callable[[int, int, str], None]
"""Called with the number of graded submissions, the number of all, and the name of the last one."""


class GradingPool(Protocol):
    """Something that grades several submissions at a time."""

    def run(
        self, tasks: Iterable[GradingTask]
    ) -> Generator[tuple[GradingTask, GradingOutcome], None, None]:
        """Yield each task with its outcome, in any order."""

    def close(self) -> None:
        """End everything that the pool has started."""


OpenPool = Callable[[GraderOpening, Grader], GradingPool]
"""Returns the pool for a grader, which may be opened again in other processes."""


@dataclass(frozen=True)
class Shard:
    """A share of the submissions, chosen by their names."""

    number: int = 1
    of: int = 1

    @property
    def file(self) -> str:
        """The name of the file with its results."""
        return f"results-{self.number}-of-{self.of}.jsonl" if self.of > 1 else "results.jsonl"

    def has(self, name: str) -> bool:
        """Whether the submission belongs to this share, whatever other submissions there are."""
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        return number % self.of == self.number - 1


WHOLE = Shard()
"""All submissions."""


def parse_shard(text: str) -> Shard:
    """Return the shard that is written as `3/16`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    shard = Shard(int(match[1]), int(match[2])) if match else Shard(0)
    if not 1 <= shard.number <= shard.of:
        problem = message("`{text}` is not a shard", text=text)
        raise UsageError(problem, "write `3/16` for the third one of sixteen")
    return shard


def local_pool(processes: int, seconds: float) -> OpenPool:
    """Return a function that opens a pool of forks of this process."""

    def open_pool(_opening: GraderOpening, grader: Grader) -> LocalPool:
        grader.prepare()
        return LocalPool(grader.grade, processes, seconds)

    return open_pool


def grade_cohort(
    folder: Path,
    out: Path,
    opening_for: Callable[[bytes], GraderOpening],
    open_pool: OpenPool,
    *,
    shard: Shard = WHOLE,
    seed: bytes | None = None,
    progress: SubmissionProgress = lambda _done, _total, _name: None,
) -> Roster:
    """Grade the submissions in `folder` that have no result in `out` yet.

    Parameters
    ----------
    opening_for : callable
        Returns how the grader for a secret seed is made.
    seed : bytes, optional
        By default, the one that is stored in `out`, or else a random one.

    Returns
    -------
    dict of str to str
        The digest of every submission, graded or not, by name.

    Raises UsageError for no submission or for results that were made under other conditions, and
    EnvironmentProblem if the results cannot be written.
    """
    if out.resolve() == folder.resolve():
        problem = message("{folder} has the submissions in it", folder=out)
        raise UsageError(problem, "name another --out folder")
    submissions = find_submissions(folder, out)
    opening = opening_for(_seed(out, seed, shard))
    grader = opening.open()
    enter(out, opening.seed, grader.settings)
    with Ledger(out / shard.file) as ledger:
        roster = {submission.name: submission.digest for submission in submissions}
        write_roster(out, roster)
        share = [submission for submission in submissions if shard.has(submission.name)]
        graded = graded_in(out, roster)
        missing = [submission for submission in share if submission.name not in graded]
        done, total = len(share) - len(missing), len(share)
        progress(done, total, "")
        if missing:
            with closing(open_pool(opening, grader)) as pool:
                for result in _results(missing, pool):
                    ledger.append([result])
                    if roster[result.submission] != result.digest:  # changed meanwhile
                        roster[result.submission] = result.digest
                        write_roster(out, roster)
                    done += 1
                    progress(done, total, result.submission)
        return roster


def _seed(out: Path, seed: bytes | None, shard: Shard) -> bytes:
    """Return the secret seed. Raises UsageError if it is not the one of earlier results."""
    stored = stored_seed(out)
    if stored is not None and seed is not None and stored != seed:
        problem = message("the results in {folder} were made with another seed", folder=out)
        raise UsageError(problem, "leave --seed out, or name a new --out folder")
    if shard.number > 1 and stored is None and seed is None:
        remedy = message(
            "copy {file} from the folder of shard 1/{count} to {folder}, or give --seed",
            file=CONDITIONS,
            count=shard.of,
            folder=out,
        )
        raise UsageError("the shards of a cohort need a common seed", remedy)
    return stored or seed or os.urandom(32)


def graded_in(out: Path, roster: Mapping[str, str]) -> set[str]:
    """Return the names of the submissions whose present files have a final result."""
    reader = ResultReader(ResultHeader)
    return {
        entry.submission
        for file in result_files(out)
        for entry in reader.read(file)
        if entry.final and roster.get(entry.submission) == entry.digest
    }


def _results(submissions: Iterable[Submission], pool: GradingPool) -> Iterator[SubmissionResult]:
    """Yield a result for each submission: first those that cannot be graded."""
    readable: list[Submission] = []
    for submission in submissions:
        if submission.problem:
            yield _rejected(submission.name, submission.digest, submission.problem)
        else:
            readable.append(submission)
    vanished: list[SubmissionResult] = []
    for task, outcome in pool.run(_tasks(readable, vanished)):
        yield SubmissionResult(task.name, task.digest, outcome.final, outcome.report)
    yield from vanished


def _tasks(
    submissions: Iterable[Submission], vanished: list[SubmissionResult]
) -> Iterator[GradingTask]:
    """Yield what to grade, read when its turn comes; note what has become unreadable meanwhile."""
    for submission in submissions:
        try:
            submitted = read_files(submission.path)
        except NotGradable as unreadable:
            problem = str(unreadable)
            digest = digest_of({"": problem.encode()})
            vanished.append(_rejected(submission.name, digest, problem))
        else:
            digest, name = digest_of(submitted.files), submission.path.name
            files = {f"{name}/{file}": data for file, data in submitted.files.items()}
            if submitted.is_file:
                files = submitted.files
            yield GradingTask(submission.name, digest, files, submitted.left_out)


def _rejected(name: str, digest: str, reason: str) -> SubmissionResult:
    return SubmissionResult(name, digest, True, rejection(name, reason, reason))
