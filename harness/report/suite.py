"""A test suite on the breaks, as lines of text, JSON and JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.core.errors import EnvironmentProblem
from harness.core.message import message
from harness.core.vocabulary import visible
from harness.grade.suite import BreakResult, SuiteReport

MOST, FEW = 20, 5
"""The largest numbers of survivors, and of breaks that no test reaches, that are listed."""


def lines(report: SuiteReport, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of the report."""
    if not report.gradable:
        yield f"No break was tried: {report.reason}."
        return
    fates = Counter(result.fate for result in report.breaks)
    score = "" if report.score is None else f" ({report.score:g} %)"
    yield (
        f"{report.engine}: {report.tests} tests kill {report.killed} of {report.of} breaks{score} "
        f"in {report.seconds:.1f} s"
    )
    yield from _survivors(report, verbose)
    missed = [result.break_ for result in report.breaks if result.fate == "not-reached"]
    if missed:
        shown = missed if verbose > 0 else missed[:FEW]
        more = f" and {len(missed) - len(shown)} more" if len(missed) > len(shown) else ""
        yield f"Not reached by any test ({len(missed)}): {', '.join(shown)}{more}"
    if absent := fates["does-not-apply"]:
        yield f"No site in this engine: {absent}"
    if reloaded := sum(result.path == "reloaded" for result in report.breaks):
        yield f"Run in a fresh process, since the code cannot be replaced: {reloaded}"
    for test, names in report.claims.items():
        yield f"{test} does not kill {', '.join(names)}, although its mark says so"
    if lost := [result for result in report.breaks if result.fate in ("survived", "not-reached")]:
        yield f"next: harness break {lost[0].break_}"


def _survivors(report: SuiteReport, verbose: int) -> Iterator[str]:
    survivors = [result for result in report.breaks if result.fate == "survived"]
    if not survivors:
        return
    shown = survivors if verbose > 0 else survivors[:MOST]
    width = max(len(result.break_) for result in shown)
    yield f"Survivors ({len(survivors)}):"
    for result in shown:
        yield f"  {result.break_:{width}}  {_about(result)}".rstrip()
    if len(survivors) > len(shown):
        yield f"  and {len(survivors) - len(shown)} more (-v lists all)"


def _about(result: BreakResult) -> str:
    if not result.reached_by:
        return ""
    first = result.reached_by[0].rpartition("::")[2]
    more = len(result.reached_by) - 1
    return f"reached by {first}" + (f" and {more} more" if more else "")


def write_json(report: SuiteReport, file: Path) -> None:
    """Write the report as JSON. Raises EnvironmentProblem if the file cannot be written."""
    computed = {"score": report.score, "killed": report.killed, "of": report.of}
    table = {**msgspec.to_builtins(report), **computed}
    _write(msgspec.json.format(msgspec.json.encode(table), indent=2), file)


def write_junit(report: SuiteReport, file: Path) -> None:
    """Write one test case a break, which fails if the break survives or is not reached.

    Raises EnvironmentProblem if the file cannot be written.
    """
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    suite = TestSuite("breaks")
    for result in report.breaks:
        case = TestCase(result.break_, classname=f"breaks.{result.family}", time=result.seconds)
        if result.fate == "does-not-apply":
            case.result = [Skipped("it has no site in this engine")]
        elif result.fate != "killed":
            case.result = [Failure(visible(f"{result.fate}: {_about(result)}"), result.fate)]
        suite.add_testcase(case)
    xml = JUnitXml(visible(f"breaks in {report.engine}"))
    xml.add_testsuite(suite)
    text: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    _write(text, file)


def _write(data: bytes, file: Path) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise EnvironmentProblem(
            message("the results cannot be written to {file}: {error}", file=file, error=error),
            "name a file in a writable folder",
        ) from None
