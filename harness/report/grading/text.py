"""A grade as lines of text."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from harness.core.vocabulary import some, visible
from harness.grade.feedback import DisclosedBreak, Grade
from harness.grade.suite import CopiedCode, Score, SuiteReport
from harness.report.grading.sentences import (
    exclusions,
    notes,
    reached_by,
    refusals,
    sentence,
)

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
        first, *others = refusals(grade)
        yield f"No break was tried: {first}"
        yield from others
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
    counts = Counter(sentence(shown) for shown in breaks if shown.fate != "killed")
    if counts:
        yield f"Not killed ({counts.total()}):"
    for words, count in counts.most_common():
        yield f"  {count} x {words}"


def _named(grade: Grade, verbose: int, option: str) -> Iterator[str]:
    breaks = grade.breaks or []
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
    listed = survivors if verbose > 0 else survivors[:MOST]
    width = max(len(f"{shown.break_}") for shown in listed)
    yield f"Survivors ({len(survivors)}):"
    for shown in listed:
        yield f"  {shown.break_:{width}}  {_about(shown)}".rstrip()
    if any(shown.stage is None and shown.fate == "survived" for shown in listed):
        yield "  (no reason: whether a number was wrong was not measured)"
    if len(survivors) > len(listed):
        yield f"  and {len(survivors) - len(listed)} more ({option} lists all)"


def _about(shown: DisclosedBreak) -> str:
    is_known = shown.stage is not None or shown.fate == "recognised"
    return sentence(shown) if is_known else reached_by(shown)
