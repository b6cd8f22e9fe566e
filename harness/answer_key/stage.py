"""The stage: how far a fault got before it was lost or noticed.

After the RIPR model of mutation testing (Ammann and Offutt): a fault must be *reached*, *infect*
the state, *propagate* to something observable, and be *revealed* by a check. Where it was lost
explains why a bug hides.

Infection is a wrong number: a changed function, given the same numbers as in the unpatched
engine, returns or writes different ones, or a node of the backward walk, with the same value,
receives or passes on different ones. A different type or graph, or an operand that nothing uses,
is not an infection.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from harness.answer_key.divergence import differs
from harness.answer_key.outcome import REFUSED, REFUSED_ELSEWHERE, digests_agree
from harness.answer_key.walks import (
    WalkMatch,
    backward_passes,
    graph_of,
    match_walks,
    passed_on,
)
from harness.core.message import EMPTY, Kind, Message, message, verbatim
from harness.core.rounding import summed_to
from harness.core.run import INNER, VISIT, Digest, NumericArray, TraceStep
from harness.core.vocabulary import Outcome, Stage

Walks = tuple[Sequence[TraceStep], Sequence[TraceStep]]
"""The walks of the broken and of the clean engine."""

Trail = Mapping[str, Digest]
"""See `harness.runs.recorder`."""

LARGEST_RESIDUE = 1e-5
"""What rounding may leave of larger numbers that cancel; anything larger is not rounding."""


@dataclass(frozen=True)
class Infection:
    """What two runs of a probe show about the numbers inside."""

    values: Literal["right", "another-way", "wrong", "unknown"]
    """All are right; all are right, but in other calls; one is wrong; they cannot be compared."""
    where: Message = EMPTY
    """The function that returned or wrote the first wrong number, or the op that has one."""
    cancelled_by: Sequence[Message] = ()
    """The ops that received a wrong number, and gave the right ones."""

    @property
    def is_wrong(self) -> bool:
        """Whether a number was wrong."""
        return self.values == "wrong"


UNKNOWN = Infection("unknown")

HIDDEN = message(Kind.HIDDEN)
ANOTHER_WAY = message(Kind.ANOTHER_WAY)
NOT_COMPARED = message(Kind.NOTHING_WRONG)


def stage_of(
    outcome: Outcome,
    infection: Infection | None,
    caught_by: Sequence[str],
    *,
    correct: bool = False,
    kind: str | None = None,
    guard_is_lost: bool = False,
) -> tuple[Stage | None, Message]:
    """Return the stage, and the sentence that explains it to a learner.

    If the stage depends on the `infection` and it is None, the stage is None and the sentence
    empty. A page that is `correct` by definition computes in another way, and correctly. `kind`
    is that of the outcome, and `guard_is_lost` says that the engine accepts another probe that it
    must refuse.
    """
    if caught_by:
        return "revealed", message("noticed by {diagnostics}", diagnostics=", ".join(caught_by))
    if outcome == "not-reached":
        return "not-reached", message("your probe never runs this line")
    if outcome == "disguised-correct":
        if infection is None:
            return None, EMPTY
        if kind == REFUSED_ELSEWHERE:
            return "not-propagated", message("refused, but not where it should be")
        if kind == REFUSED:
            stage: Stage = "not-propagated" if infection.is_wrong else "not-infected"
            return stage, message("it ran, and the same statement refuses this input")
        if guard_is_lost and not infection.is_wrong:
            return "not-infected", message(Kind.NOTHING_TO_REFUSE)
        return _hidden(infection, correct=correct)
    if outcome == "convention":
        choice = message("another valid choice at a kink: there is nothing to reveal")
        return "not-revealed", choice
    return "not-revealed", message("wrong, but no check that was run noticed it")


def _hidden(infection: Infection, *, correct: bool) -> tuple[Stage | None, Message]:
    """Return the stage of a run whose results are right."""
    match infection.values:
        case "wrong" if correct:
            return "not-infected", ANOTHER_WAY
        case "right":
            return "not-infected", HIDDEN
        case "another-way":
            return "not-infected", ANOTHER_WAY
        case "unknown":
            return None, NOT_COMPARED
    if infection.cancelled_by:
        return "not-propagated", message(
            Kind.CANCELLED, where=infection.where, ops=_listed(infection.cancelled_by)
        )
    return "not-propagated", message(Kind.WRONG_INSIDE, where=infection.where)


def _listed(places: Sequence[Message]) -> Message:
    """Return several places as one phrase."""
    first, *rest = places
    return message("{one} and {other}", one=first, other=_listed(rest)) if rest else first


def infection_of(
    broken: Trail,
    clean: Trail,
    walks: Walks = ((), ()),
) -> Infection:
    """Return what the trails of a broken and of a clean run show.

    They include the visits of the walks if both were recorded. `walks` are the walks themselves,
    and say where a wrong number was cancelled.
    """
    functions = _functions(broken), _functions(clean)
    walked = [any(name.startswith(VISIT) for name in side) for side in functions]
    largest = max((d.rounding for trail in (broken, clean) for d in trail.values()), default=0.0)
    comparison = _CallComparison(min(largest, LARGEST_RESIDUE))
    for name in dict.fromkeys([*functions[0], *functions[1]]):
        if not (all(walked) and name.startswith(INNER)):
            comparison.compare(name, functions[0].get(name, {}), functions[1].get(name, {}))
    if comparison.wrong:
        name = comparison.wrong[0]
        where = verbatim(name) if name else message("a leaf")
        return Infection("wrong", where, cancelled_by(walks))
    if any(walked) and not all(walked):
        return UNKNOWN
    if place := misled(walks):
        return Infection("wrong", place, cancelled_by(walks))
    if comparison.others:
        return Infection("another-way") if all(walked) else UNKNOWN
    return Infection("right") if comparison.compared else UNKNOWN


class _CallDigests(NamedTuple):
    given: Digest
    gave: Digest | None
    """None if it raised."""
    is_idle: bool = False
    """Whether it returned nothing, and wrote nothing that was recorded."""


def _functions(trail: Trail) -> dict[str, dict[str, _CallDigests]]:
    """Return the calls of each function by number, in the order in which they began."""
    functions: defaultdict[str, dict[str, _CallDigests]] = defaultdict(dict)
    for key, digest in trail.items():
        if key.endswith(" in"):
            call = key.removesuffix(" in")
            name, _, number = call.rpartition("#")
            functions[name][number] = _CallDigests(
                digest, trail.get(f"{call} out"), f"{call} idle" in trail
            )
    return functions


@dataclass
class _CallComparison:
    """Compares calls, function by function."""

    residue: float
    wrong: list[str] = field(default_factory=list)
    """The functions with a call that gives wrong numbers; the name of a leaf is empty."""
    others: list[str] = field(default_factory=list)
    """The functions that are called with other numbers, or not as often."""
    compared: int = 0

    def compare(
        self, name: str, broken: Mapping[str, _CallDigests], clean: Mapping[str, _CallDigests]
    ) -> None:
        """Compare the calls of a function, in the same order or in another."""
        shown = name.removeprefix(INNER).removeprefix(VISIT).replace("/", ".")
        same = {n for n, call in broken.items() if n in clean and self._is_same(call, clean[n])}
        self.compared += sum(not (broken[n].is_idle and clean[n].is_idle) for n in same)
        rest = [call for number, call in clean.items() if number not in same]
        for number, call in broken.items():
            if number in same:
                continue
            alike = [one for one in clean.values() if self._agree(call.given, one.given)]
            match = next((one for one in rest if self._is_same(call, one)), None)
            if match is not None:
                rest.remove(match)
                self.compared += 1
            elif self._is_wrong(call, alike):
                self.wrong.append(shown)
            else:
                self.others.append(shown)
        if rest and shown not in self.wrong:
            self.others.append(shown)

    def _is_wrong(self, call: _CallDigests, alike: Sequence[_CallDigests]) -> bool:
        """Whether a call gave a result that no clean call with the same numbers gave."""
        gave = [one.gave for one in alike if one.gave]
        return bool(call.gave and gave) and not any(self._is_same(call, one) for one in alike)

    def _is_same(self, one: _CallDigests, other: _CallDigests) -> bool:
        if not self._agree(one.given, other.given):
            return False
        if one.gave is None or other.gave is None:
            return one.gave is other.gave
        return self._agree(one.gave, other.gave)

    def _agree(self, one: Digest, other: Digest) -> bool:
        return digests_agree(one, other, max(one.rounding, other.rounding, self.residue))


# ----- Cancellation: where a wrong number became a right one -----

MOST = 3
"""The largest number of places that are named."""

UPDATE = message("the update of the parameters")


def cancelled_by(walks: Walks) -> list[Message]:
    """Return what received a wrong number and gave a right one: ops first, then their rules.

    Nodes that only one of the graphs has are not compared. Empty if no walks were recorded, or if
    nothing in them cancels a number.
    """
    matches = _matches(walks)
    if len(matches) > 1 and _wrong_values(matches[-1]):
        return []  # the log does not show where it was cancelled
    places = [place for match in matches for place in (*_in_values(match), *_in_rules(match))]
    pairs = pairwise(matches)
    if any(_has_wrong_gradient(match) and _is_updated(match, after) for match, after in pairs):
        places.append(UPDATE)
    return list({str(place): place for place in places}.values())[:MOST]


def misled(walks: Walks) -> Message | None:
    """Return which op of both graphs receives a different number, from a different operand."""
    for match in _matches(walks):
        for user, _, _ in _misled(match):
            return message("what `{op}` receives", op=match.graph.steps[user].op)
    return None


def _matches(walks: Walks) -> list[WalkMatch]:
    """Return the match of each backward pass; none if there are not equally many."""
    passes = [backward_passes(steps) for steps in walks]
    if len(passes[0]) != len(passes[1]):
        return []
    return [match_walks(broken, graph_of(clean)) for broken, clean in zip(*passes, strict=True)]


def _misled(match: WalkMatch) -> list[tuple[int, TraceStep, TraceStep]]:
    """Return the replaced operands with other numbers, if no other operand can make up for it.

    A sum, for example, may be split into two terms in another way, or its terms may be swapped: of
    several replaced operands, none is wrong if the result is right. A constant is not compared.
    """
    scales, steps = match.graph.value_scales, match.graph.steps
    others = [
        (user, actual, expected)
        for user, actual, expected in match.replaced
        if all(parent == expected.index or parent in match.twins for parent in steps[user].parents)
        and _is_wrong(
            actual.value.numpy().squeeze(),
            expected.value.numpy().squeeze(),
            scales[expected.index],
        )
    ]
    counts, wrong = Counter(user for user, _, _ in others), _wrong_values(match)
    return [other for other in others if counts[other[0]] == 1 or other[0] in wrong]


def _in_values(match: WalkMatch) -> Iterator[Message]:
    """Yield each op whose value is right, although that of an operand is wrong."""
    graph = match.graph
    wrong = _wrong_values(match)
    users = {user for user, _, _ in _misled(match)}
    for step in reversed(match.visits):
        is_right = step.index not in wrong and step.index not in match.places
        parents = graph.steps[step.index].parents
        if is_right and (step.index in users or wrong.intersection(parents)):
            yield message("`{op}`", op=step.op)


def _wrong_values(match: WalkMatch) -> set[int]:
    """Return the nodes that have a wrong value."""
    graph = match.graph
    return {
        step.index
        for step in match.visits
        if _is_wrong(
            step.value.numpy(),
            graph.steps[step.index].value.numpy(),
            graph.value_scales[step.index],
        )
    }


def _in_rules(match: WalkMatch) -> Iterator[Message]:
    """Yield the rules that make a wrong gradient right, and the sums in which wrong ones cancel."""
    for step in match.visits:
        if step.index in match.places:
            continue
        if _is_lost_in_rule(step, match):
            yield message("the backward of `{op}`", op=step.op)
        elif _is_lost_in_sum(step, match):
            if step.op:
                yield message("the sum of the gradients of `{op}`", op=step.op)
            else:
                yield message("the sum of the gradients of a leaf")


def _has_wrong_gradient(match: WalkMatch) -> bool:
    """Whether a leaf received a wrong gradient."""
    graph = match.graph
    return any(
        not step.op
        and _is_wrong(
            step.cotangent.numpy(),
            graph.steps[step.index].cotangent.numpy(),
            graph.scales[step.index],
        )
        for step in match.visits
    )


def _is_updated(match: WalkMatch, after: WalkMatch) -> bool:
    """Whether the next pass has a leaf with a new value; without one, gradients are only added."""
    leaves, later = (
        {step.value.data for step in one.graph.steps.values() if not step.op}
        for one in (match, after)
    )
    return not later <= leaves


def _is_lost_in_rule(step: TraceStep, match: WalkMatch) -> bool:
    """Whether a node received a wrong cotangent, and passed on only right ones."""
    graph = match.graph
    expected, scale = graph.steps[step.index], graph.scales[step.index]
    handed = [_is_wrong(one, right, scale) for _, one, right in _handed(step, expected)]
    received = step.cotangent.numpy(), expected.cotangent.numpy()
    return bool(handed) and not any(handed) and _is_wrong(*received, scale)


def _is_lost_in_sum(step: TraceStep, match: WalkMatch) -> bool:
    """Whether a node received the right sum, although some of its terms are wrong.

    An engine may sum a term over the axes that were broadcast only when it arrives.
    """
    graph = match.graph
    terms, are_wrong = [], []
    for visit in match.visits:
        for parent, actual, right in _handed(visit, graph.steps[visit.index]):
            if parent == step.index:
                terms.append(actual)
                are_wrong.append(_is_wrong(actual, right, graph.scales[visit.index]))
    if not any(are_wrong):
        return False
    scale, expected = graph.scales[step.index], graph.steps[step.index].cotangent.numpy()
    summed = [summed_to(expected.shape, term) for term in terms]
    if len({term.shape for term in summed}) > 1:
        return False
    sums = np.sum(summed, axis=0), step.cotangent.numpy()
    return not any(_is_wrong(total, expected, scale) for total in sums)


def _handed(
    step: TraceStep, expected: TraceStep
) -> Iterator[tuple[int, NumericArray, NumericArray]]:
    """Yield what a node passed to each parent, and what it should have; operands may have moved."""
    rest = passed_on(expected)
    for parent, array in passed_on(step):
        match = next((pair for pair in rest if pair[0] == parent), None)
        if match is not None:
            rest.remove(match)
            yield parent, array.numpy(), match[1].numpy()


def _is_wrong(actual: NumericArray, expected: NumericArray, scale: float) -> bool:
    """Whether the numbers are wrong; shapes may differ if they broadcast."""
    try:
        actual, expected = np.broadcast_arrays(actual, expected)
    except ValueError:
        return True
    return differs(actual, expected, scale)
