"""The result of a suite on a user's own backward rules, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from harness.core.message import shortened, some, visible
from harness.grade.feedback import DisclosedBreak, Grade
from harness.grade.suite import RuleChange
from harness.report.grading.reasons import ORDER, SHORT, why
from harness.report.grading.text import (
    FEW,
    accepted,
    counted,
    kind_of,
    not_tried,
    uncounted,
    wrapped,
)
from harness.rules import Form, Rule

MOST = 12
"""The largest number of survivors that are listed."""

CODE = "    "
"""How a line begins that shows code; such a line is cut at the width of the terminal."""

LONG = 20
"""The least length of a common beginning of old and new code that is left out, in characters."""

WIDE = 80
"""Old and new code are shown whole if together they have fewer characters than this."""


def lines(grade: Grade, rules: Sequence[Rule], verbose: int, width: int) -> Iterator[str]:
    """Yield the lines of the summary, wrapped to a width; with `verbose`, all survivors."""
    for line in _lines(grade, rules, verbose):
        is_code = line.startswith(CODE) and verbose <= 0
        yield from [shortened(visible(line), width)] if is_code else wrapped(line, width)


def _lines(grade: Grade, rules: Sequence[Rule], verbose: int) -> Iterator[str]:
    if not grade.gradable:
        yield from not_tried(grade, "mutant")
        if not grade.breaks:
            until = "until the tests pass every time they are run"
            yield f"Nothing can be said about the rules {until}."
        return
    every = grade.breaks or []
    mutants = [mutant for mutant in every if not mutant.is_accepted]
    survivors = [mutant for mutant in mutants if mutant.fate == "survived"]
    yield _summary(grade, rules, every)
    yield from accepted(every)
    yield from uncounted(grade)
    if late := sum(mutant.timed_out is True for mutant in mutants):
        yield f"Killed only because the tests did not end in time: {late}"
    yield from _survivors(survivors, verbose)
    yield from _not_reached(mutants)
    for test, names in (grade.claims or {}).items():
        yield f"{test} does not kill every mutant of {', '.join(names)}, although its mark says so"
    yield from _to_write(survivors)
    yield from to_paste(survivors, rules)


def _summary(grade: Grade, rules: Sequence[Rule], mutants: Sequence[DisclosedBreak]) -> str:
    number = "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
    tests = "1 test kills" if grade.tests == 1 else f"{grade.tests} tests kill"
    return (
        f"{grade.engine}: {number}, {len(mutants)} mutants; {tests} {grade.killed} "
        f"({grade.score:g} %) in {grade.seconds:.1f} s"
    )


def _change(mutant: DisclosedBreak) -> RuleChange:
    assert isinstance(mutant.change, RuleChange)
    return mutant.change


def _survivors(survivors: Sequence[DisclosedBreak], verbose: int) -> Iterator[str]:
    """Yield the survivors by their reasons; those that may be equivalent come last."""
    if not survivors:
        return
    yield f"Survivors ({len(survivors)}):{counted(survivors)}"
    ordered = sorted(survivors, key=lambda one: ORDER.index(kind_of(one)))
    shown = ordered if verbose > 0 else ordered[:MOST]
    places = {id(one): f"{Path(str(one.file)).name}:{one.line}" for one in shown}
    wide = max(map(len, places.values()))
    width = max(len(_change(one).operator) for one in shown)
    groups: dict[str, list[DisclosedBreak]] = {}
    for mutant in shown:
        reason = str(why(mutant.reason)) if mutant.reason else SHORT["not-measured"]
        groups.setdefault(reason, []).append(mutant)
    for reason, mutants in groups.items():
        yield f"  {reason[:1].upper()}{reason[1:]}"
        for mutant in mutants:
            change = _change(mutant)
            code = " -> ".join(_difference(change.before, change.after or "nothing"))
            yield f"{CODE}{places[id(mutant)]:{wide}}  {change.operator:{width}}  {code}"
    if len(survivors) > len(shown):
        yield f"  and {len(survivors) - len(shown)} more (-v lists all)"


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return two lines of code, without the words with which both begin if these are long."""
    pairs = zip(before.split(" "), after.split(" "), strict=False)
    common = " ".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if len(common) < LONG or len(before) + len(after) < WIDE:
        return before, after
    return f"...{before[len(common) :]}", f"...{after[len(common) :]}"


def _not_reached(mutants: Sequence[DisclosedBreak]) -> Iterator[str]:
    missed = [mutant for mutant in mutants if mutant.fate == "not-reached"]
    counts = Counter(f"{(c := _change(one)).rule}.{c.function}" for one in missed)
    if len(missed) == len(mutants):
        yield (
            "No test reaches a rule: write one that calls it and computes a gradient, or check "
            "that the tests import this file."
        )
    elif missed:
        names = [f"{name} ({count})" for name, count in counts.items()]
        yield f"Not reached by any test ({len(missed)}): {some(names, FEW)}"


def _to_write(survivors: Sequence[DisclosedBreak]) -> Iterator[str]:
    """Yield the tests that would kill most of the survivors, and the page to read."""
    groups: dict[str, list[DisclosedBreak]] = {}
    for mutant in survivors:
        if kind_of(mutant) != "same":
            groups.setdefault(_change(mutant).operator, []).append(mutant)
    first = sorted(groups, key=lambda name: (-len(groups[name]), groups[name][0].level or 0, name))
    if first:
        yield "Tests to write:"
    for operator in first[:3]:
        yield f"  {operator} ({len(groups[operator])}): {_change(groups[operator][0]).write}"
    if first:
        yield f"next: harness show {first[0]}"


def to_paste(survivors: Sequence[DisclosedBreak], rules: Sequence[Rule]) -> Iterator[str]:
    """Yield calls of `check_rule` for the PyTorch functions with the most survivors.

    Mutants that gave the same numbers in every call are left out: they may be equivalent.
    """
    counts = Counter((one.file, _change(one).rule) for one in survivors if kind_of(one) != "same")
    found = [rule for rule in rules if rule.form is Form.TORCH and counts[rule.file, rule.name]]
    first = sorted(found, key=lambda rule: -counts[rule.file, rule.name])[:3]
    if first:
        yield "or, in one call, on small tensors with distinct values and requires_grad=True:"
    for rule in first:
        one = "," if len(rule.inputs) == 1 else ""
        inputs = f"({', '.join(rule.inputs)}{one})" if rule.inputs else "inputs"
        yield f"{CODE}harness.check_rule({rule.name}.apply, {inputs})"
