"""A kill matrix as JUnit XML, for tools that show test results.

There is one test case per control, diagnostic and break. Failures are violated controls (including
false alarms), survivors, and differences from the committed matrix. A diagnostic that could not run
is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.dom.minidom import parseString

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.core.vocabulary import visible
from harness.core.writing import write_file
from harness.matrix.records import Matrix


def write_junit(matrix: Matrix, file: Path) -> None:
    """Write the matrix to `file`. Raises EnvironmentProblem if it cannot be written."""
    xml = JUnitXml(visible(f"kill matrix of {matrix.engine.name}"))
    for suite in (_controls(matrix), _diagnostics(matrix), _breaks(matrix)):
        xml.add_testsuite(suite)
    text: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    write_file(file, parseString(text).toprettyxml(encoding="utf-8"))


def _controls(matrix: Matrix) -> TestSuite:
    cases = [
        (row.control, "controls", _failure("control", row.problems)) for row in matrix.controls
    ]
    return _suite("controls", cases)


def _diagnostics(matrix: Matrix) -> TestSuite:
    def result(name: str) -> list[Failure | Skipped]:
        return [Skipped(visible(matrix.skipped[name]))] if name in matrix.skipped else []

    names = [row.name for row in matrix.diagnostics]
    return _suite("diagnostics", [(name, "diagnostics", result(name)) for name in names])


def _breaks(matrix: Matrix) -> TestSuite:
    differences: dict[str, list[str]] = {}
    for difference in matrix.differences or ():
        text = f"{difference.sign} {difference.text}"
        differences.setdefault(difference.break_, []).append(text)
    family = {row.break_: row.family for row in matrix.breaks}
    problems = {row.break_: [row.problem] if row.problem else [] for row in matrix.breaks}
    cases = []
    for name in [*family, *(gone for gone in differences if gone not in family)]:
        failing = problems.get(name, []) + differences.get(name, [])
        kind = "difference" if name in differences else "survivor"
        cases.append((name, f"breaks.{family.get(name, 'gone')}", _failure(kind, failing)))
    return _suite("breaks", cases)


def _suite(name: str, cases: Iterable[tuple[str, str, Sequence[Failure | Skipped]]]) -> TestSuite:
    """Return a suite of test cases, given as name, group, and failure or reason for skipping."""
    suite = TestSuite(name)
    for case_name, group, results in cases:
        case = TestCase(case_name, classname=f"matrix.{group}")
        case.result = list(results)
        suite.add_testcase(case)
    return suite


def _failure(kind: str, problems: Sequence[str]) -> list[Failure | Skipped]:
    """Return one failure for all problems of a test case, as readers of the format expect."""
    if not problems:
        return []
    failure = Failure(visible(problems[0]), kind)
    failure.text = visible("\n".join(problems))
    return [failure]
