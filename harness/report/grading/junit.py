"""A grade as JUnit XML, for tools that show test results."""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.errors import EnvironmentProblem
from harness.core.message import visible
from harness.grade.feedback import DisclosedBreak, Grade
from harness.report.grading.text import refusals, sentence

try:
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
except ImportError:
    raise EnvironmentProblem(
        "JUnit XML needs junitparser, which is not installed", "pip install 'breaklab[junit]'"
    ) from None


def to_junit(grade: Grade) -> str:
    """Return one test case per break, which fails unless the break is killed.

    The cases are numbered if no break may be named. There is one case per level if only numbers may
    be shown, and a single case if the suite cannot be graded.
    """
    suite = TestSuite("breaks")
    for case in _cases(grade):
        suite.add_testcase(case)
    xml = JUnitXml(visible(f"breaks in {grade.engine}"))
    xml.add_testsuite(suite)
    text: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    return text.decode("utf-8")


def _cases(grade: Grade) -> Iterator[TestCase]:
    if not grade.gradable:
        yield _case("correct engines", "breaks", "not-gradable", " ".join(refusals(grade)))
        return
    if grade.feedback == "score":
        for level, score in grade.levels.items():
            lost = score.of - score.killed
            problem = f"{lost} of {score.of} breaks are not killed" if lost else ""
            yield _case(f"level {level}", "breaks", "survived", problem)
        return
    for number, shown in enumerate(grade.breaks or (), start=1):
        yield _case_of(number, shown)


def _case_of(number: int, shown: DisclosedBreak) -> TestCase:
    name = shown.break_ or f"break {number}"
    group = f"breaks.{shown.family}" if shown.family else "breaks"
    problem = "" if shown.fate in ("killed", "does-not-apply") else str(sentence(shown))
    case = _case(name, group, shown.fate, problem, shown.seconds or 0.0)
    if shown.fate == "does-not-apply":
        case.result = [Skipped("it has no site in this engine")]
    elif shown.baseline == "equivalent":
        why = f"equivalent, as the baseline says: {shown.justification}"
        case.result = [Skipped(visible(why))]
    elif shown.baseline == "accepted":
        case.result = [Skipped(visible(f"accepted in the baseline: {problem}"))]
    return case


def _case(name: str, group: str, kind: str, problem: str, seconds: float = 0.0) -> TestCase:
    case = TestCase(visible(name), classname=group, time=seconds)
    if problem:
        case.result = [Failure(visible(f"{kind}: {problem}"), kind)]
    return case
