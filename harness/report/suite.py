"""A test suite on the breaks, with all names: lines of text, JSON, JUnit XML and SARIF."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.grade.feedback import disclose
from harness.grade.suite import SuiteReport
from harness.report.files import write
from harness.report.grading import render, text


def lines(report: SuiteReport, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of the report; the terminal wraps them."""
    return text.lines(disclose(report), verbose, width=sys.maxsize, option="-v")


def write_json(report: SuiteReport, file: Path) -> None:
    """Write the report as JSON. Raises EnvironmentProblem if the file cannot be written."""
    write(render(disclose(report), "json"), file)


def write_junit(report: SuiteReport, file: Path) -> None:
    """Write one test case a break, which fails if the break survives or is not reached.

    Raises EnvironmentProblem if the file cannot be written.
    """
    write(render(disclose(report), "junit"), file)


def write_sarif(report: SuiteReport, file: Path, titles: Mapping[str, str], root: Path) -> None:
    """Write each break that survives or is not reached, at its line below the engine's root.

    Raises EnvironmentProblem if the file cannot be written.
    """
    write(render(disclose(report, titles=titles, root=root), "sarif"), file)
