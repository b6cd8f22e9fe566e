"""A grader that does what the first line of a submission says, without running anything."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from harness.core.errors import UsageError
from harness.grade.cohort.grader import Grader
from harness.grade.suite import BreakResult, SuiteReport

BREAKS = ("first", "second", "third", "fourth")


def open_grader(arguments: Mapping[str, object], seed: bytes) -> Grader:
    """Return the grader; `log` is a file that it adds the name of each submission to."""

    def grade(path: Path) -> SuiteReport:
        with Path(str(arguments["log"])).open("a") as log:
            log.write(f"{path.name}\n")
        file = path if path.is_file() else min(path.rglob("*.py"))
        do, _, argument = file.read_text().partition(" ")
        return _do(do.strip(), argument.strip(), seed)

    def prepare() -> None:
        with Path(str(arguments["log"])).open("a") as log:
            log.write("prepared\n")

    return Grader(grade, {"catalogue": str(arguments["catalogue"])}, prepare)


def _do(do: str, argument: str, seed: bytes) -> SuiteReport:
    match do:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill-once":
            marker = Path(argument)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "hang":
            time.sleep(600)
        case "wait-for":
            while not Path(argument).exists():
                time.sleep(0.01)
        case "raise":
            raise ValueError(argument)
        case "refuse":
            raise UsageError(argument, "mend it")
        case "reject-once" if not (marker := Path(argument)).exists():
            marker.touch()
            return _report("once", 0, seed)
        case "kill-later":
            if (marker := Path(argument)).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            marker.touch()
        case "reject":
            return _report(argument, 0, seed)
    return _report("", int(do) if do.isdigit() else 1, seed)


def _report(reason: str, kills: int, seed: bytes) -> SuiteReport:
    results = [
        BreakResult(
            break_=name,
            family="made",
            level=1,
            fate="killed" if index < kills else "survived",
            by=[],
            reached_by=[],
            path="swapped",
            seconds=time.perf_counter(),
        )
        for index, name in enumerate(BREAKS)
    ]
    return SuiteReport(
        schema=1,
        suite=[],
        engine=f"made with {seed.hex()}",
        gradable=not reason,
        reason=reason,
        tests=kills,
        breaks=[] if reason else results,
        claims={},
        seconds=time.perf_counter(),
    )
