"""Cancellation: where a wrong number became a right one, found by comparing two recorded walks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from harness.answer_key.divergence import differs
from harness.answer_key.matching import Match, WalkGraph, backward_passes, match_walks, passed_on
from harness.core.message import Message, message
from harness.core.run import NumericArray, TraceStep

Walks = tuple[Sequence[TraceStep], Sequence[TraceStep]]
"""The walks of the broken and of the clean engine."""

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


def _matches(walks: Walks) -> list[Match]:
    """Return the match of each backward pass; none if there are not equally many."""
    passes = [backward_passes(steps) for steps in walks]
    if len(passes[0]) != len(passes[1]):
        return []
    return [
        match_walks(broken, WalkGraph({step.index: step for step in clean}, {}))
        for broken, clean in zip(*passes, strict=True)
    ]


def _misled(match: Match) -> list[tuple[int, TraceStep, TraceStep]]:
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


def _in_values(match: Match) -> Iterator[Message]:
    """Yield each op whose value is right, although that of an operand is wrong."""
    graph = match.graph
    wrong = _wrong_values(match)
    users = {user for user, _, _ in _misled(match)}
    for step in reversed(match.visits):
        is_right = step.index not in wrong and step.index not in match.places
        parents = graph.steps[step.index].parents
        if is_right and (step.index in users or wrong.intersection(parents)):
            yield message("`{op}`", op=step.op)


def _wrong_values(match: Match) -> set[int]:
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


def _in_rules(match: Match) -> Iterator[Message]:
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


def _has_wrong_gradient(match: Match) -> bool:
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


def _is_updated(match: Match, after: Match) -> bool:
    """Whether the next pass has a leaf with a new value; without one, gradients are only added."""
    leaves, later = (
        {step.value.data for step in one.graph.steps.values() if not step.op}
        for one in (match, after)
    )
    return not later <= leaves


def _is_lost_in_rule(step: TraceStep, match: Match) -> bool:
    """Whether a node received a wrong cotangent, and passed on only right ones."""
    graph = match.graph
    expected, scale = graph.steps[step.index], graph.scales[step.index]
    handed = [_is_wrong(one, right, scale) for _, one, right in _handed(step, expected)]
    received = step.cotangent.numpy(), expected.cotangent.numpy()
    return bool(handed) and not any(handed) and _is_wrong(*received, scale)


def _is_lost_in_sum(step: TraceStep, match: Match) -> bool:
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
    summed = [_summed_to(expected.shape, term) for term in terms]
    if len({term.shape for term in summed}) > 1:
        return False
    sums = np.sum(summed, axis=0), step.cotangent.numpy()
    return not any(_is_wrong(total, expected, scale) for total in sums)


def _summed_to(shape: tuple[int, ...], array: NumericArray) -> NumericArray:
    """Return the array summed to `shape`, or as it is if `shape` does not broadcast to its own."""
    added = array.ndim - len(shape)
    pairs = zip(shape, array.shape[max(added, 0) :], strict=False)
    if added < 0 or any(length not in (1, full) for length, full in pairs):
        return array
    axes = [axis + added for axis, length in enumerate(shape) if length == 1]
    return np.asarray(array.sum(axis=(*range(added), *axes))).reshape(shape)


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
