"""The results of a cohort: one line of JSON for each submission, appended as soon as it is graded.

Every line ends with a checksum, so that one that is cut off or damaged counts as missing: that
submission is graded again. A lock keeps two processes from appending to the same file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import msgspec

from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.core.writing import PRIVATE
from harness.grade.suite import SuiteReport

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


class SubmissionResult(ResultHeader, frozen=True):
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
            with file.open("rb") as lines:
                for line in lines:
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
        except ValueError:
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
