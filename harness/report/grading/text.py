"""A grade in words, and as lines of text.

The sentences say what became of a break, and why there is no score; all formats share them.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from harness.core.message import Message, message, shortened, some, verbatim, visible
from harness.core.vocabulary import Stage
from harness.grade.feedback import DisclosedBreak, Grade
from harness.grade.suite import CopiedCode, ReasonKind, Score, SuiteReport, UncountedResult
from harness.report.grading.reasons import MOST_OF_A_NAME, ORDER, SHORT, name_of, why

# ----- Sentences -----

MOST_OF_A_REASON = 1000
"""The number of characters to show of why a suite has no score."""

MOST_TESTS = 5
"""The number of tests in a list that are named; the others are counted."""

_UNSEEN = message("with a wrong number that no assertion looks at")

STAGES: Mapping[Stage | None, Message] = {
    None: message("and no assertion fails; whether a number was wrong was not measured"),
    "not-infected": message("but their inputs hide it: all numbers are right"),
    "not-propagated": message(
        "with a wrong number inside, but the error is lost before the result"
    ),
    "not-revealed": _UNSEEN,
    "revealed": _UNSEEN,
}
"""Where a break that survives was lost, after the tests that reach it."""


def sentence(shown: DisclosedBreak) -> Message:
    """Return what became of a break."""
    match shown.fate:
        case "killed":
            return message("killed by {tests}", tests=named(shown.by))
        case "recognised" if len(shown.by) == 1:
            return message(
                "{test} also fails on correct code that is written differently",
                test=named(shown.by),
            )
        case "recognised":
            return message(
                "{tests} also fail on correct code that is written differently",
                tests=named(shown.by),
            )
        case "not-reached":
            return message("not reached by any test")
        case "does-not-apply":
            return message("no site in this engine")
        case "survived":
            reached = reached_by(shown) or message("reached")
            if shown.reason and is_explained(shown):
                return message("{reached}; {reason}", reached=reached, reason=why(shown.reason))
            lost = STAGES.get(shown.stage, STAGES[None])
            return message("{reached}, {lost}", reached=reached, lost=lost)


def is_explained(shown: DisclosedBreak) -> bool:
    """Whether the reason of a survivor says more than its stage."""
    return bool(shown.reason) and (shown.stage is None or kind_of(shown) != "not-measured")


def reached_by(shown: DisclosedBreak) -> Message | None:
    """Return which tests reach a break; None if that is not known."""
    if not shown.reached_by:
        return None
    return message("reached by {tests}", tests=named(shown.reached_by))


def named(ids: Sequence[str]) -> Message:
    """Return the first test of several and how many more there are: `test_mul and 2 more`."""
    if not ids:
        return message("a test")
    first, more = name_of(ids[0]), len(ids) - 1
    return message("{names} and {count} more", names=first, count=more) if more else verbatim(first)


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


def not_tried(grade: Grade, what: str) -> Iterator[str]:
    """Yield why no break or mutant was tried, or that all of them are set aside as equivalent."""
    if set_aside := list(accepted(grade.breaks or ())):
        yield from set_aside
        return
    first, *others = refusals(grade)
    yield f"No {what} was tried: {first}"
    yield from others


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


# ----- Lines -----

WIDTH = 80
"""The width of a text that is written to a file."""

MOST, FEW = 20, 5
"""The largest numbers of survivors, and of breaks that no test reaches, that are listed."""


def render(grade: Grade) -> str:
    """Return the text for a file."""
    return "\n".join(lines(grade, verbose=1))


def lines(
    grade: Grade, verbose: int = 0, width: int = WIDTH, option: str = "--verbose"
) -> Iterator[str]:
    """Yield the lines of a grade, wrapped to a width.

    Unless `verbose`, long lists are cut, and the text names the option that shows all.
    """
    for line in _lines(grade, verbose, option):
        yield from wrapped(line, width)


def kills_by_test(report: SuiteReport, width: int, *, every: bool) -> Iterator[str]:
    """Yield a line for each test that kills a break, the one that kills most first.

    `every` says that all tests were run on each break, and not only until one of them failed.
    """
    kills: defaultdict[str, list[str]] = defaultdict(list)
    for result in report.breaks:
        if result.fate == "killed":
            for test in result.by:
                kills[test].append(result.break_)
    if kills:
        first = "" if every else " (the first test that fails on each; --breaks-all runs all)"
        yield from wrapped(f"Killed by{first}:", width)
    for test, breaks in sorted(kills.items(), key=lambda item: -len(item[1])):
        yield from wrapped(f"  {test}: {', '.join(breaks)}", width)


def wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines of at most this width; what follows the first one is indented."""
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(
        visible(line),
        width,
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(grade: Grade, verbose: int, option: str) -> Iterator[str]:
    if not grade.gradable:
        yield from not_tried(grade, "break")
        yield from _doubts(grade)
        return
    yield from exclusions(grade)
    yield _summary(grade)
    yield from _doubts(grade)
    if grade.weighted:
        yield f"Points: {round(grade.points or 0, 2):g} of {grade.max_points:g}"
    yield f"By level: {_listed(grade.levels, 'at level ')}"
    if grade.families:
        yield f"By family: {_listed(grade.families, 'in ')}"
    yield from notes(grade, len(grade.uncalled or ()) if verbose > 0 else FEW)
    match grade.feedback:
        case "stage":
            yield from _anonymous(grade.breaks or ())
        case "names":
            yield from _named(grade, verbose, option)


def _doubts(grade: Grade) -> Iterator[str]:
    """Yield what an instructor should know about how the tests work."""
    for test, ways in (grade.refused or {}).items():
        yield f"Tried to look at the engine's code: {test or 'an import'}, with {', '.join(ways)}"
    copied = grade.copied or CopiedCode()
    if copied.share:
        used = f"; used by {some(copied.tests, FEW)}" if copied.tests else ""
        yield f"Copied from the engine: {100 * copied.share:.0f} % of its functions{used}"


def _summary(grade: Grade) -> str:
    share = f"{grade.score:g} % by weight" if grade.weighted else f"{grade.score:g} %"
    tests = "1 test kills" if grade.tests == 1 else f"{grade.tests} tests kill"
    return (
        f"{grade.engine}: {tests} {grade.killed} of {grade.of} breaks ({share}) "
        f"in {grade.seconds:.1f} s"
    )


def _listed(scores: Mapping[int, Score] | Mapping[str, Score], where: str) -> str:
    """Return how many breaks of each group are killed: `1 of 2 in broadcasting`."""
    parts = [f"{score.killed} of {score.of} {where}{name}" for name, score in scores.items()]
    return ", ".join(parts)


def _anonymous(breaks: Sequence[DisclosedBreak]) -> Iterator[str]:
    """Yield how often each fate occurs among the breaks that are not killed."""
    counts = Counter(str(sentence(shown)) for shown in breaks if shown.fate != "killed")
    if counts:
        yield f"Not killed ({counts.total()}):"
    for words, count in counts.most_common():
        yield f"  {count} x {words}"


def accepted(breaks: Sequence[DisclosedBreak]) -> Iterator[str]:
    """Yield how many breaks are not listed, since they are in the user's baseline."""
    states = Counter(shown.baseline for shown in breaks if shown.is_accepted)
    if known := states["accepted"]:
        yield f"In the baseline, and not listed: {known}"
    if set_aside := states["equivalent"]:
        yield f"Equivalent, as the baseline says, and not counted: {set_aside}"


def _named(grade: Grade, verbose: int, option: str) -> Iterator[str]:
    yield from accepted(grade.breaks or ())
    breaks = [shown for shown in grade.breaks or () if not shown.is_accepted]
    fates = Counter(shown.fate for shown in breaks)
    yield from _survivors(breaks, verbose, option)
    missed = [f"{shown.break_}" for shown in breaks if shown.fate == "not-reached"]
    if missed:
        listed = some(missed, len(missed) if verbose > 0 else FEW)
        yield f"Not reached by any test ({len(missed)}): {listed}"
    if absent := fates["does-not-apply"]:
        yield f"No site in this engine: {absent}"
    if reloaded := sum(shown.path == "reloaded" for shown in breaks):
        yield f"Run with the engine imported again, since the code cannot be replaced: {reloaded}"
    for test, names in (grade.claims or {}).items():
        yield f"{test} does not kill {', '.join(names)}, although its mark says so"
    if lost := [shown for shown in breaks if shown.fate not in ("killed", "does-not-apply")]:
        yield f"next: harness break {lost[0].break_}"


def _survivors(breaks: Sequence[DisclosedBreak], verbose: int, option: str) -> Iterator[str]:
    survivors = [shown for shown in breaks if shown.fate in ("survived", "recognised")]
    if not survivors:
        return
    survivors.sort(key=lambda shown: ORDER.index(kind_of(shown)))  # by reason, if there are any
    listed = survivors if verbose > 0 else survivors[:MOST]
    width = max(len(f"{shown.break_}") for shown in listed)
    yield f"Survivors ({len(survivors)}):{counted(survivors)}"
    for shown in listed:
        yield f"  {shown.break_:{width}}  {_about(shown)}".rstrip()
    if any(not (shown.stage or shown.reason) and shown.fate == "survived" for shown in listed):
        yield "  (no reason: whether a number was wrong was not measured)"
    if len(survivors) > len(listed):
        yield f"  and {len(survivors) - len(listed)} more ({option} lists all)"


def _about(shown: DisclosedBreak) -> str:
    if shown.fate == "survived" and shown.reason and is_explained(shown):
        return str(why(shown.reason))
    is_known = shown.stage is not None or shown.fate == "recognised"
    return str(sentence(shown) if is_known else reached_by(shown) or "")


def kind_of(shown: DisclosedBreak) -> ReasonKind:
    """Return the kind of reason why something survives."""
    return shown.reason.kind if shown.reason else "not-measured"


def counted(survivors: Sequence[DisclosedBreak]) -> str:
    """Return how many survivors have each reason; empty if there are no reasons."""
    if not any(shown.reason for shown in survivors):
        return ""
    counts = Counter(map(kind_of, survivors))
    return " " + ", ".join(f"{counts[kind]} {SHORT[kind]}" for kind in ORDER if counts[kind])
