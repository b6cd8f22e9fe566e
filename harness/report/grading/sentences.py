"""What became of a break, and why there is no score, in words that all formats share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.core.message import shortened, some, visible
from harness.core.vocabulary import Stage
from harness.grade.feedback import DisclosedBreak, Grade
from harness.grade.suite import UncountedResult

MOST_OF_A_NAME = 60
"""The number of characters to show of a test's name: its author may choose any."""

MOST_OF_A_REASON = 1000
"""The number of characters to show of why a suite has no score."""

MOST_TESTS = 5
"""The number of tests in a list that are named; the others are counted."""

STAGES: Mapping[Stage | None, str] = {
    None: "and no assertion fails; whether a number was wrong was not measured",
    "not-infected": "but their inputs hide it: all numbers are right",
    "not-propagated": "with a wrong number inside, but the error is lost before the result",
    "not-revealed": "with a wrong number that no assertion looks at",
    "revealed": "with a wrong number that no assertion looks at",
}
"""Where a break that survives was lost, after the tests that reach it."""


def sentence(shown: DisclosedBreak) -> str:
    """Return what became of a break."""
    match shown.fate:
        case "killed":
            return f"killed by {named(shown.by)}"
        case "recognised":
            fails = "fails" if len(shown.by) == 1 else "fail"
            return f"{named(shown.by)} also {fails} on correct code that is written differently"
        case "not-reached":
            return "not reached by any test"
        case "does-not-apply":
            return "no site in this engine"
        case "survived":
            lost = STAGES.get(shown.stage, STAGES[None])
            return f"{reached_by(shown)}, {lost}" if shown.reached_by else f"reached, {lost}"


def reached_by(shown: DisclosedBreak) -> str:
    """Return which tests reach a break; empty if that is not known."""
    return f"reached by {named(shown.reached_by)}" if shown.reached_by else ""


def named(ids: Sequence[str]) -> str:
    """Return the first test of several and how many more there are: `test_mul and 2 more`."""
    return some(list(map(name_of, ids)), 1) or "a test"


def name_of(node: str) -> str:
    """Return the name of a test without its file and class: `test_sub[3]`.

    It is made visible here, since a web page shows the strings of JSON without their escapes.
    """
    _, scoped, inside = node.partition("::")  # a folder may be called `a[1]`
    name, bracket, parameters = (inside if scoped else node).partition("[")
    return shortened(visible(name.rpartition("::")[2] + bracket + parameters), MOST_OF_A_NAME)


def names_of(nodes: Sequence[str]) -> str:
    """Return the names of several tests; of many, the first ones: `test_a, test_b and 7 more`."""
    return some(list(map(name_of, nodes)), MOST_TESTS)


UNCOUNTED: Mapping[UncountedResult, str] = {
    "skipped": "they are skipped",
    "xfailed": "they are expected to fail, and may also pass (xfail without strict=True)",
    "xpassed": "they are expected to fail, and may also pass (xfail without strict=True)",
}
"""Why tests cannot kill, by their results on the correct engine."""


def refusals(grade: Grade) -> Iterator[str]:
    """Yield why a suite has no score, and what its tests find on correct engines."""
    yield f"{shortened(visible(grade.reason), MOST_OF_A_REASON)}."
    yield from failing(grade)
    yield from uncounted(grade)
    yield from left_out(grade)


def exclusions(grade: Grade) -> Iterator[str]:
    """Yield which tests a suite is graded without, and what that costs."""
    if grade.partial:
        count = len(grade.excluded)
        tests = "1 test that fails" if count == 1 else f"{count} tests that fail"
        price = f"which costs {grade.cost:g} % of the score"
        yield f"Graded without {tests} on a correct engine, {price}"
        yield from failing(grade)


def notes(grade: Grade, most: int = MOST_TESTS) -> Iterator[str]:
    """Yield what is to be said of a suite besides its score; `most` names of functions."""
    yield from uncounted(grade)
    yield from left_out(grade)
    if names := grade.uncalled or []:
        yield f"Public functions that no test calls ({len(names)}): {some(names, most)}"


def uncounted(grade: Grade) -> Iterator[str]:
    """Yield which tests do not count, and why."""
    if grade.flaky:
        yield f"Not counted, since their results vary: {names_of(grade.flaky)}"
    for reason in dict.fromkeys(UNCOUNTED[result] for result in grade.uncounted.values()):
        tests = [test for test, result in grade.uncounted.items() if UNCOUNTED[result] == reason]
        yield f"Not counted, since {reason}: {names_of(tests)}"


def failing(grade: Grade) -> Iterator[str]:
    """Yield the tests that fail on correct engines."""
    for correct in grade.correct:
        if correct.failed:
            note = f" ({shortened(correct.note, MOST_OF_A_REASON)})" if correct.note else ""
            engine = visible(f"On the correct engine {correct.engine}{note}")
            yield f"{engine}, these tests fail: {names_of(correct.failed)}"


def left_out(grade: Grade) -> Iterator[str]:
    """Yield what was found in the submission's folder and does not belong to it."""
    if grade.left_out:
        names = [shortened(visible(name), MOST_OF_A_NAME) for name in grade.left_out]
        yield f"Left out of the submission: {some(names, MOST_TESTS)}"
