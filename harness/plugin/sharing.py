"""Sharing the breaks among the workers of pytest-xdist.

Each worker has run only some of the tests. When its tests are done, it writes down what they reach,
waits until the others have done the same, and then takes one break after another. They share a
folder that the main process creates.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.grade.suite import SuiteReport

FOLDER = "breaklab_folder"


@dataclass(frozen=True)
class WorkerGroup:
    """The workers of a run, seen from one of them; a process alone is a group of one."""

    folder: Path | None
    worker: str = "main"
    workers: int = 1

    def begin(self) -> None:
        """Register this worker."""
        self._write("process", os.getpid())

    def exchange(self, results: Any) -> list[Any]:
        """Return the results of all workers that have not died, in a fixed order."""
        if self.folder is None:
            return [results]
        self._write("results", results)
        while not self._is_complete():
            time.sleep(0.05)
        files = sorted(self.folder.glob("results-*"))
        return [pickle.loads(file.read_bytes()) for file in files]

    def claim(self, name: str) -> bool:
        """Return whether this worker is the first to claim a name."""
        if self.folder is None:
            return True
        try:
            (self.folder / f"claim-{name}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def publish(self, report: SuiteReport) -> None:
        """Leave this worker's report for the main process, which may have stopped listening."""
        self._write("report", report)

    def _write(self, kind: str, value: Any) -> None:
        if self.folder is not None:
            unfinished = self.folder / f"unfinished-{self.worker}"
            unfinished.write_bytes(pickle.dumps(value))
            unfinished.rename(self.folder / f"{kind}-{self.worker}")

    def _is_complete(self) -> bool:
        """Whether every worker has written its results or has ended."""
        assert self.folder is not None
        started = {file.name.partition("-")[2]: file for file in self.folder.glob("process-*")}
        done = {file.name.partition("-")[2] for file in self.folder.glob("results-*")}
        waiting = [name for name in started if name not in done]
        return len(started) >= self.workers and not any(
            _is_alive(pickle.loads(started[name].read_bytes())) for name in waiting
        )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def group_of(config: pytest.Config) -> WorkerGroup:
    """Return the group that this process belongs to."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None:
        return WorkerGroup(None)
    return WorkerGroup(Path(given[FOLDER]), given["workerid"], given["workercount"])


class Meeting:
    """The plugin in the main process of xdist, which runs no test itself."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="breaklab-"))

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker which folder the group shares."""
        node.workerinput[FOLDER] = str(self.folder)

    def reports(self) -> list[SuiteReport]:
        """Return the reports that the workers have published."""
        return [pickle.loads(file.read_bytes()) for file in sorted(self.folder.glob("report-*"))]

    def pytest_unconfigure(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def merged(reports: Sequence[SuiteReport], order: Sequence[str]) -> SuiteReport | None:
    """Return the workers' reports as one, with the breaks in this order; None without reports."""
    if not reports:
        return None
    results = {result.break_: result for report in reports for result in report.breaks}
    rejected = [report for report in reports if not report.gradable]
    return msgspec.structs.replace(
        (rejected or reports)[0],
        breaks=[results[name] for name in order if name in results],
        claims={test: names for report in reports for test, names in report.claims.items()},
        seconds=max(report.seconds for report in reports),
    )
