"""Grading a cohort: submissions without a result are graded, and each result is stored at once.

So a run can be stopped or killed at any moment, and the same command continues it. A submission is
a Python file, or a folder with files.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from harness.core.errors import UsageError
from harness.core.message import message, visible
from harness.grade.cohort.grader import Grader, GraderOpening, rejection
from harness.grade.cohort.pool import GradingOutcome, GradingTask, LocalPool
from harness.grade.cohort.results import (
    CONDITIONS,
    WHOLE,
    Ledger,
    Roster,
    Shard,
    StoredResults,
    SubmissionResult,
    enter,
    stored_seed,
    write_roster,
)
from harness.grade.files import NotGradable, SubmittedFiles, read_submission
from harness.pages.catalogue import nearest

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


# ----- The run -----

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
    again: Collection[str] = (),
    progress: SubmissionProgress = lambda _done, _total, _name: None,
) -> Roster:
    """Grade the submissions in `folder` that have no result in `out` yet.

    Parameters
    ----------
    opening_for : callable
        Returns how the grader for a secret seed is made.
    seed : bytes, optional
        By default, the one that is stored in `out`, or else a random one.
    again : collection of str, optional
        The names of submissions to grade even if they have a result; the new result counts.

    Returns
    -------
    dict of str to str
        The digest of every submission, graded or not, by name.

    Raises UsageError for no submission, for an unknown name or for results that were made under
    other conditions, and EnvironmentProblem if the results cannot be written.
    """
    if out.resolve() == folder.resolve():
        problem = message("{folder} has the submissions in it", folder=out)
        raise UsageError(problem, "name another --out folder")
    submissions = find_submissions(folder, out)
    share = [submission for submission in submissions if shard.has(submission.name)]
    for name in again:
        _require_submission(name, share, folder)
    opening = opening_for(_seed(out, seed, shard))
    grader = opening.open()
    enter(out, opening.seed, grader.settings)
    with Ledger(out / shard.file) as ledger:
        roster = {submission.name: submission.digest for submission in submissions}
        write_roster(out, roster)
        stored = StoredResults(out, roster)
        graded = stored.graded.difference(again)
        missing = [submission for submission in share if submission.name not in graded]
        done, total = len(share) - len(missing), len(share)
        progress(done, total, "")
        if missing:
            with closing(open_pool(opening, grader)) as pool:
                for result in _results(missing, pool):
                    number, day = stored.counts[result.submission], f"{datetime.now(UTC):%Y-%m-%d}"
                    ledger.append([msgspec.structs.replace(result, number=number, day=day)])
                    if roster[result.submission] != result.digest:  # changed meanwhile
                        roster[result.submission] = result.digest
                        write_roster(out, roster)
                    done += 1
                    progress(done, total, result.submission)
        return roster


def _require_submission(name: str, share: Iterable[Submission], folder: Path) -> None:
    """Raise UsageError if no submission of this share has that name."""
    names = [submission.name for submission in share]
    if name not in names:
        problem = message("there is no submission `{name}` in {folder}", name=name, folder=folder)
        remedy = message("{question}write its name as in scores.csv", question=nearest(name, names))
        raise UsageError(problem, remedy)


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
        yield SubmissionResult(task.name, task.digest, outcome.final, report=outcome.report)
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
    return SubmissionResult(name, digest, True, report=rejection(name, reason, reason))
