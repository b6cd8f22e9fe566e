"""The folder with the results of a cohort, and merging the folders of shards.

cohort.json        the secret seed, and everything else that the results depend on
submissions.json   the submissions, with their digests, as the last run found them
results*.jsonl     one line for each submission; a shard has its own file
scores.csv, missed.md
feedback/          a file for each submission, if wanted

A result is appended as soon as it is there. Every line ends with a checksum, so that one that is
cut off or damaged counts as missing: that submission is graded again. A lock keeps two processes
from appending to the same file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, BinaryIO, Generic, TypeVar

import msgspec

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from harness.core import open_regular
from harness.core.errors import EnvironmentProblem, UsageError
from harness.core.files import PRIVATE, unwritable, write_file
from harness.core.message import message
from harness.grade.suite import SuiteReport

_LONGEST_NAME = 255
"""Bytes in the name of a file."""

_LARGEST_TABLE, _LONGEST_LINE = 64 * 1024 * 1024, 256 * 1024 * 1024
"""Bytes of a file about all results, and of one result."""

CONDITIONS, ROSTER = "cohort.json", "submissions.json"

Stored = TypeVar("Stored")


class Conditions(msgspec.Struct, frozen=True):
    """What all results in a folder have in common."""

    schema: int
    seed: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]
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
        try:
            write_file(draft, msgspec.json.format(msgspec.json.encode(conditions)), PRIVATE)
            with suppress(FileExistsError):  # of an earlier run, or of a shard that began just now
                os.link(draft, out / CONDITIONS)
        finally:
            draft.unlink(missing_ok=True)
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


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that are not the same."""
    return sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))


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
    """Return the table in a file; None if there is none. Raises EnvironmentProblem.

    The file may come from another machine.
    """
    try:
        with _open_regular(file) as opened:
            return msgspec.json.decode(opened.read(_LARGEST_TABLE), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        remedy = "restore it from a copy, or grade again into a new --out folder"
        problem = message("{path} cannot be read: {reason}", path=file, reason=error)
        raise EnvironmentProblem(problem, remedy) from None


def _open_regular(file: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError unless it is a regular file."""
    opened = open_regular(file)
    if opened is None:
        raise OSError(errno.EINVAL, "it is not a regular file")
    return opened


# ----- The files of results -----

PATIENCE = 5.0
"""Seconds to wait for the lock: the processes of a killed run take a moment to end."""

_CHECKSUM = b',"checksum":"%s"}'
_LENGTH = len(_CHECKSUM % bytes(32))


class ResultHeader(msgspec.Struct, frozen=True):
    """The part of a result that says whether the result counts."""

    submission: str
    digest: str
    """Of the files that were graded."""
    final: bool
    """False if the grader failed, and not the submission: it is graded again in the next run."""
    number: int = 0
    """The number of results of this submission, of any of its files, that were stored before."""
    day: str = ""
    """The day on which it was graded, as `2026-03-31` in UTC; empty if that is not known."""


class SubmissionResult(ResultHeader, frozen=True, kw_only=True):
    """The result of grading one submission."""

    report: SuiteReport


AnyResult = TypeVar("AnyResult", bound=ResultHeader)


def encode_line(result: SubmissionResult) -> bytes:
    """Return the line of a result, with its checksum and line end."""
    body = msgspec.json.encode(result)[:-1]
    return body + _CHECKSUM % _checksum(body) + b"\n"


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


class ResultReader(Generic[AnyResult]):
    """The results in some files, decoded as `kind`; it counts the lines that are damaged."""

    def __init__(self, kind: type[AnyResult]) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self.damaged = 0

    def read(self, file: Path) -> Iterator[AnyResult]:
        """Yield the results in the lines that are complete. Raises EnvironmentProblem."""
        try:
            with _open_regular(file) as lines:
                while line := lines.readline(_LONGEST_LINE):
                    result = self._decode(line)
                    if result is not None:
                        yield result
                    elif line.strip():
                        self.damaged += 1
        except OSError as error:
            problem = message(
                "the results in {file} cannot be read: {error}",
                file=file,
                error=error.strerror or error,
            )
            raise EnvironmentProblem(problem, "restore the file, or remove it") from None

    def _decode(self, line: bytes) -> AnyResult | None:
        body, end = line[: -_LENGTH - 1], line[-_LENGTH - 1 :]
        if end != _CHECKSUM % _checksum(body) + b"\n":
            return None
        try:
            return self._decoder.decode(line)
        except (ValueError, RecursionError):
            return None


class Ledger:
    """A file that this process alone appends results to, while it is open."""

    def __init__(self, file: Path) -> None:
        """Open the file. Raises EnvironmentProblem if it cannot be written or is in use."""
        self._file = file
        try:
            # Not inherited by forks, which a lock with flock(2) would be; and it must be another
            # file, since closing any descriptor of a file gives up its locks.
            self._lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._results = os.open(file, flags, PRIVATE)
            self._acquire()
            self._end_cut_line()
        except OSError as error:
            raise self._problem(error) from None

    def append(self, results: Iterable[SubmissionResult]) -> None:
        """Append a line for each result, and wait until they are on disk.

        Raises EnvironmentProblem.
        """
        try:
            for result in results:
                line = memoryview(encode_line(result))
                while line:
                    line = line[os.write(self._results, line) :]
            os.fsync(self._results)
        except OSError as error:
            raise self._problem(error) from None

    def __enter__(self) -> Ledger:
        """Return the open file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, and let others write to it."""
        os.close(self._results)
        os.close(self._lock)

    def _acquire(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except (BlockingIOError, PermissionError):
                if time.monotonic() > end:
                    problem = message("another process is writing {file}", file=self._file)
                    remedy = "wait for it or stop it; parallel runs need their own --shard each"
                    raise EnvironmentProblem(problem, remedy) from None
                time.sleep(0.05)

    def _end_cut_line(self) -> None:
        """End a last line that was cut off, so that the next one is not lost with it."""
        size = os.fstat(self._results).st_size
        if size and os.pread(self._results, 1, size - 1) != b"\n":
            os.write(self._results, b"\n")

    def _problem(self, error: OSError) -> EnvironmentProblem:
        problem = message(
            "the results cannot be written to {file}: {error}",
            file=self._file,
            error=error.strerror or error,
        )
        remedy = "free some space or restore the permissions; what has been written is kept"
        return EnvironmentProblem(problem, remedy)


# ----- Shards -----


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


class StoredResults:
    """What is stored in a folder, without the reports: which result counts, and which are old."""

    def __init__(self, out: Path, roster: Mapping[str, str]) -> None:
        """Read the folder. Raises EnvironmentProblem."""
        self.counts: Counter[str] = Counter()
        """The number of results of each submission."""
        self.newest: dict[str, ResultHeader] = {}
        """The result that counts for the present files of each submission: the newest of those
        that are final, if there is any."""
        for file in result_files(out):
            for header in ResultReader(ResultHeader).read(file):
                self.counts[header.submission] += 1
                if roster.get(header.submission) == header.digest:
                    before = self.newest.get(header.submission)
                    if before is None or _rank(header) >= _rank(before):
                        self.newest[header.submission] = header

    @property
    def graded(self) -> set[str]:
        """The names of the submissions whose present files have a final result."""
        return {name for name, header in self.newest.items() if header.final}


def _rank(header: ResultHeader) -> tuple[bool, int]:
    return header.final, header.number


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
        ledger.append(_results_to_add(folders, out))
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


def _results_to_add(folders: Sequence[Path], out: Path) -> Iterator[SubmissionResult]:
    """Yield each result that is not in `out` yet, old ones too."""
    headers = ResultReader(ResultHeader)
    there = {identity(header) for file in result_files(out) for header in headers.read(file)}
    reader = ResultReader(SubmissionResult)
    for folder in folders:
        if folder.resolve() == out.resolve():
            continue
        for file in result_files(folder):
            for result in reader.read(file):
                if identity(result) not in there:
                    there.add(identity(result))
                    yield result


def identity(header: ResultHeader) -> tuple[object, ...]:
    """Return what no two results have in common, unless one is a copy of the other."""
    return header.submission, header.digest, *_rank(header), header.day
