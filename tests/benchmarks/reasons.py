"""What the reasons of survivors cost: a grading with them against one without.

    python -m tests.benchmarks.reasons [SUITE ...] [--breaks SELECTION] [--rounds N] [--update]

For each suite, `pytest --breaks` and `harness grade` run with and without reasons, in turn, and the
processor time of all their processes is measured. The ratio is the median of those of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from harness.core.files import write_file
from harness.report import markdown_table
from harness.report.documents import with_text
from tests.benchmarks.engine import PAGE, machine
from tests.benchmarks.suites import children_time
from tests.suites import ROOT, SUITES, Suite

START = "<!-- the table of tests.benchmarks.reasons -->\n"
MEASURED = ("functions", "classes")
SELECTION = "family:broadcasting"


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds of one command on one suite, of each round."""

    suite: str
    command: str
    survivors: int
    without: Sequence[float]
    complete: Sequence[float]

    @property
    def cells(self) -> list[str]:
        """The row of the table."""
        ratio = median(b / a for a, b in zip(self.without, self.complete, strict=True))
        times = [f"{median(seconds):.1f} s" for seconds in (self.without, self.complete)]
        return [f"`{self.command}`", f"`{self.suite}`", str(self.survivors), *times, f"{ratio:.2f}"]


HEAD = ("command", "suite", "survivors", "without reasons", "with reasons", "ratio")


def pytest_configure() -> None:
    """Leave out the reasons, if this module is a plugin of pytest."""
    from harness.plugin.session import BreaksSession

    setattr(BreaksSession, "_compare", lambda *_: None)  # noqa: B010  a method


def of_plugin(suite: Suite, selection: str, rounds: int) -> Cost:
    """Measure `pytest --breaks`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", *suite.arguments, f"--breaks={selection}"]
        complete = [*command, f"--breaks-json={report}"]
        times = _in_turn([*command, "-p", "tests.benchmarks.reasons"], complete, rounds)
        entries = json.loads(report.read_text(encoding="utf-8"))["breaks"]
    return Cost(suite.name, "pytest --breaks", _survivors(entries), *times)


def of_grade(suite: Suite, selection: str, rounds: int) -> Cost:
    """Measure `harness grade`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "harness", "grade", *suite.paths, "--seed", "benchmark"]
        command += ["--select", selection]
        score = [*command, "--feedback", "score", "--format", f"json={Path(folder) / 'score.json'}"]
        names = [*command, "--feedback", "names", "--format", f"json={report}"]
        times = _in_turn(score, names, rounds)
        entries = json.loads(report.read_text(encoding="utf-8"))["breaks"]
    return Cost(suite.name, "harness grade", _survivors(entries), *times)


def _survivors(entries: Sequence[dict[str, object]]) -> int:
    return sum(entry["fate"] == "survived" for entry in entries)


def _in_turn(
    one: Sequence[str], other: Sequence[str], rounds: int
) -> tuple[list[float], list[float]]:
    """Return the processor time of two commands, after a round that fills the cache."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for command, seconds in zip((one, other), times, strict=True):
            used = children_time(partial(_run, command))
            if number:
                seconds.append(used)
    return times


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)


MEASURES: Sequence[Callable[[Suite, str, int], Cost]] = (of_plugin, of_grade)


def main() -> None:
    """Measure, and print a table in Markdown; with `--update`, write it to the page."""
    parser = argparse.ArgumentParser(description="What the reasons of survivors cost.")
    names = [suite.name for suite in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(names))
    parser.add_argument(
        "--breaks", default=SELECTION, help=f"as for pytest; {SELECTION} by default"
    )
    parser.add_argument("--rounds", type=int, default=3, help="after one that fills the cache")
    parser.add_argument("--update", action="store_true", help=f"write the table to {PAGE.name}")
    options = parser.parse_args()
    if options.update and (options.suites or options.breaks != SELECTION):
        parser.error("--update needs the usual measurement: leave out SUITE and --breaks")
    chosen = [suite for suite in SUITES if suite.name in (options.suites or MEASURED)]
    rows = []
    for suite in chosen:
        for measure in MEASURES:
            rows.append(measure(suite, options.breaks, options.rounds).cells)
            print(*rows[-1], flush=True)
    text = "\n".join(
        [
            f"Measured with `{options.breaks}`, {options.rounds} rounds: {machine()}; "
            f"load {os.getloadavg()[1]:.0f}.",
            "",
            *markdown_table(HEAD, rows),
            "",
        ]
    )
    print(f"\n{text}")
    if options.update:
        write_file(PAGE, with_text(PAGE.read_text(encoding="utf-8"), text, START))


if __name__ == "__main__":
    main()
