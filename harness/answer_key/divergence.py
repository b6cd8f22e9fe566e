"""The first divergence: the node of the graph at which a broken backward pass first goes wrong.

That is the earliest difference in the order of events: the graph that was built, its values, and
then, along the walk, which node was visited, what it received and what it passed on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, zip_longest
from typing import NamedTuple

import numpy as np

from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.naming import format_distinct
from harness.answer_key.walks import (
    WalkGraph,
    WalkMatch,
    backward_passes,
    graph_of,
    match_walks,
    passed_on,
)
from harness.core.message import Message, message
from harness.core.rounding import agree, wrong_entries
from harness.core.run import Array, NumericArray, TraceStep

_MOST_TERMS = 8  # of a sum of which all subsets are tried


@dataclass(frozen=True)
class Parting:
    """The place at which a broken walk first differs from the correct one."""

    node: int
    """The index of the node in the correct walk."""
    operand: int | None
    """The operand that was passed a wrong cotangent; None if the node itself is wrong."""
    in_backward: bool
    """Whether the backward pass is wrong, rather than a value."""


@dataclass(frozen=True)
class Divergence:
    """The first difference between a broken and a correct walk: in words, and in the graph."""

    sentence: Message
    parting: Parting | None = None
    """None if the difference is not at one place, such as a different number of passes."""
    walk: Sequence[TraceStep] = ()
    """The correct backward pass that contains the place."""
    inserted: Sequence[TraceStep] = ()
    """The nodes that only the broken pass has, with indices that continue those of the other."""
    is_dtype: bool = False
    """Whether only the dtype is another, and the numbers are right."""


def first_divergence(
    broken: Sequence[TraceStep],
    correct: Sequence[TraceStep],
    names: Mapping[int, str],
    *,
    failed: bool = False,
) -> Divergence | None:
    """Return where the walk of `broken` first differs from that of `correct`; None if nowhere.

    Both are in the order of the walk, outputs first. `names` names leaves by their index in
    `correct`. Several backward passes are compared in turn. If the walk of `broken` has `failed`,
    it differs at its end at the latest. Otherwise, None also if either trace is empty, as for an
    engine that cannot record its walk.
    """
    passes = backward_passes(broken), backward_passes(correct)
    if failed and not broken:
        passes = [[]], passes[1]
    first_dtype: Divergence | None = None
    for number, (actual, expected) in enumerate(zip(*passes, strict=False), start=1):
        ended = failed and number == len(passes[0])
        for found in _divergences(actual, expected, names, failed=ended):
            if first_dtype and (found.is_dtype or found.parting is None):
                continue
            sentence = found.sentence
            if len(passes[1]) > 1:
                sentence = message(
                    "in backward pass {number}: {divergence}", number=number, divergence=sentence
                )
            inserted = match_walks(actual, graph_of(expected)).inserted() if actual else ()
            divergence = replace(found, sentence=sentence, walk=expected, inserted=inserted)
            if not found.is_dtype:
                return _after(divergence, first_dtype)
            first_dtype = divergence
    if first_dtype:
        return first_dtype
    if all(passes) and len(passes[0]) != len(passes[1]):
        sentence = message(
            "{actual} backward passes were made, expected {expected}",
            actual=len(passes[0]),
            expected=len(passes[1]),
        )
        return Divergence(sentence)
    return None


def _after(divergence: Divergence, dtype: Divergence | None) -> Divergence:
    """Return a divergence with another dtype before it, in which no number was wrong yet."""
    if dtype is None:
        return divergence
    sentence = message(
        "{divergence}; before that, with right numbers: {dtype}",
        divergence=divergence.sentence,
        dtype=dtype.sentence,
    )
    return replace(divergence, sentence=sentence)


def parting(broken: Sequence[TraceStep], correct: Sequence[TraceStep]) -> Parting | None:
    """Return where the first backward pass of `broken` first differs; None if nowhere."""
    divergence = first_divergence(first_pass(broken), first_pass(correct), {})
    return divergence.parting if divergence else None


def first_pass(steps: Sequence[TraceStep]) -> tuple[TraceStep, ...]:
    """Return the steps of the first backward pass."""
    walks = backward_passes(steps)
    return tuple(walks[0]) if walks else ()


def _divergences(
    broken: list[TraceStep],
    correct: list[TraceStep],
    names: Mapping[int, str],
    *,
    failed: bool = False,
) -> Iterator[Divergence]:
    """Yield what is wrong, the earliest first; later differences may follow from it."""
    graph = graph_of(correct, names)
    if not broken:
        yield _unfinished(graph, correct[0].index)
        return
    match = match_walks(broken, graph)
    difference = _difference(match)
    for divergence in chain(_wrong_values(match), _wrong_cotangents(match, failed=failed)):
        if difference:
            sentence = message(
                "{divergence}; the graph is different: {difference}",
                divergence=divergence.sentence,
                difference=difference,
            )
            divergence = replace(divergence, sentence=sentence)
        yield divergence
    if difference:
        yield Divergence(message("the graph is different: {difference}", difference=difference))


def _difference(match: WalkMatch) -> Message | None:
    """Return how the graph differs, with the leaf that no gradient reaches if there is one."""
    if match.difference is None or not match.lost_leaves:
        return match.difference
    return message(
        "{difference}; no gradient reaches {leaf}",
        difference=match.difference,
        leaf=match.graph.name(match.lost_leaves[0]),
    )


# ----- The forward pass -----


def _wrong_values(match: WalkMatch) -> Iterator[Divergence]:
    """Yield the wrong values, inputs first; the operands of the first one are right."""
    graph = match.graph
    wrong: dict[int | None, _Mismatch | None] = {
        step.index: _unlike(
            VALUE, step.value, graph.steps[step.index].value, graph.value_scales[step.index]
        )
        for step in match.visits
    }
    for index in reversed(graph.steps):
        difference = wrong.get(index)
        if not difference:
            continue
        users = [u for u in graph.users[index] if u in wrong and u not in match.places]
        if users and not any(wrong[user] for user in users):
            if index in match.places:
                continue
            sentence = message(
                "{node} ended with {difference}, but {user}, which was computed from it, is right",
                node=match.name(index),
                difference=difference.sentence,
                user=match.name(users[0]),
            )
        else:
            sentence = _wrong_value(index, difference.sentence, match, wrong)
        parting = Parting(index, None, in_backward=False)
        yield Divergence(sentence, parting, is_dtype=difference.is_dtype)


def _wrong_value(
    index: int, difference: Message, match: WalkMatch, wrong: Mapping[int | None, _Mismatch | None]
) -> Message:
    name, step = match.name(index), match.graph.steps[index]
    if index in match.places or not step.op:
        return message("{node} has {difference}", node=name, difference=difference)
    is_replaced = any(user == index for user, _, _ in match.replaced)
    if not is_replaced and all(one in wrong and not wrong[one] for one in step.parents):
        return message(
            "the forward pass of {node} gave {difference}; its operands were right",
            node=name,
            difference=difference,
        )
    return message("the forward pass of {node} gave {difference}", node=name, difference=difference)


# ----- The backward pass -----


def _wrong_cotangents(match: WalkMatch, *, failed: bool) -> Iterator[Divergence]:
    """Yield what is wrong at each visit, in the order of the walk; then the nodes never visited."""
    graph, visits = match.graph, match.visits
    visited, done = {step.index for step in visits}, set[int]()
    givers: defaultdict[int, list[int]] = defaultdict(list)
    for visit in visits:
        for index in dict(passed_on(visit)):
            givers[index].append(visit.index)
    for step in visits:
        here = Parting(step.index, None, in_backward=True)
        awaited = [user for user in graph.users[step.index] if user not in done]
        if not visited.issuperset(awaited) and not match.difference:
            break
        if late := [user for user in awaited if user in givers[step.index]]:
            sentence = message(
                "{node} was visited too early: before {user}, which had a gradient for it",
                node=match.name(step.index),
                user=match.name(late[0]),
            )
            yield Divergence(sentence, here)
        done.add(step.index)
        if arrival := _wrong_arrival(step, match):
            yield replace(arrival, parting=here)
        if step.index not in match.places:
            yield from _wrong_rule(step, match)
    if failed:
        yield from _end(match)
        return
    for index in graph.steps:
        if index in match.twins and index not in visited and givers[index]:
            sentence = message(
                "the walk never visited {node}, although {user} passed it a gradient",
                node=match.name(index),
                user=match.name(givers[index][0]),
            )
            yield Divergence(sentence, Parting(index, None, in_backward=True))


def _end(match: WalkMatch) -> Iterator[Divergence]:
    """Yield where a walk failed, if the correct one visits the same nodes up to there."""
    order = list(match.graph.steps)
    visited = [step.index for step in match.visits]
    if len(visited) < len(order) and visited == order[: len(visited)]:
        yield _unfinished(match.graph, order[len(visited)])


def _unfinished(graph: WalkGraph, index: int) -> Divergence:
    sentence = message(
        "the backward pass failed before it finished {node}",
        node=graph.name(index),
    )
    return Divergence(sentence, Parting(index, None, in_backward=True))


def _wrong_arrival(step: TraceStep, match: WalkMatch) -> Divergence | None:
    """Return how a received cotangent is wrong, although those passed to the node are right."""
    expected = match.graph.steps[step.index]
    scale = match.graph.scales[step.index]
    difference = _unlike(GRADIENT, step.cotangent, expected.cotangent, scale)
    if not difference:
        return None
    sentence = _arrival(step, match, difference.sentence)
    return Divergence(sentence, is_dtype=difference.is_dtype)


def _arrival(step: TraceStep, match: WalkMatch, wrong: Message) -> Message:
    own = match.twins[step.index]
    handed = [a.numpy() for other in match.broken for i, a in passed_on(other) if i == own]
    alike = [visit for visit in match.visits if visit.index not in match.places]
    counts = {
        sum(index == step.index for giver in walk for index, _ in passed_on(giver))
        for walk in (alike, match.graph.steps.values())
    }
    name = match.name(step.index)
    if not handed and own == match.broken[0].index:
        return message("the walk starts from {difference}", difference=wrong)
    if counts != {len(handed)}:  # the graph is different here
        return message("{node} received {difference}", node=name, difference=wrong)
    if len(handed) == 1:
        (term,), received = handed, step.cotangent.numpy()
        if np.can_cast(term.dtype, received.dtype) and np.array_equal(term, received):
            # It was right for its dtype, which is coarser than the expected one.
            return message("{node} received {difference}", node=name, difference=wrong)
        reason = message("its only incoming gradient was right, but was changed on the way")
    else:
        reason = message(
            "its {count} incoming gradients were right, but {mistake}",
            count=len(handed),
            mistake=_mistaken_sum(step.cotangent.numpy(), handed),
        )
    return message(
        "{node} received {difference}; {reason}", node=name, difference=wrong, reason=reason
    )


def _mistaken_sum(actual: NumericArray, terms: Sequence[NumericArray]) -> Message:
    """Return which of the terms were summed, if that is certain.

    It is not if a term is zero or all are equal, since other sums then give the same number.
    """
    unknown = message("they do not add up to that")
    if len({array.shape for array in (actual, *terms)}) > 1:
        return unknown
    if agree(actual, np.sum(terms, axis=0)):  # only its dtype is wrong
        return message("their sum was converted to another dtype")
    if len(terms) > _MOST_TERMS:
        return unknown
    places = range(len(terms))
    sets = [chosen for n in range(len(terms)) for chosen in combinations(places, n)]
    sums = ((chosen, sum((terms[i] for i in chosen), np.zeros(actual.shape))) for chosen in sets)
    fitting = [chosen for chosen, total in sums if agree(actual, total)]
    are_equal = all(agree(term, terms[0]) for term in terms)
    if are_equal or agree(actual, np.mean(terms, axis=0)):
        return unknown
    if fitting == [(0,)]:
        return message("only the first counted")
    if fitting == [(places[-1],)]:
        return message("only the last counted")
    counts = {len(chosen) for chosen in fitting}
    if counts == {1}:
        return message("only one of them counted")
    return message("one of them did not count") if counts == {len(terms) - 1} else unknown


def _wrong_rule(step: TraceStep, match: WalkMatch) -> Iterator[Divergence]:
    """Yield each wrong cotangent that an op's rule passed on, although its own was right."""
    graph, expected = match.graph, match.graph.steps[step.index]
    for operand, (parent, pair) in enumerate(
        zip(expected.parents, _side_by_side(step, expected), strict=False)
    ):
        if pair is None:
            continue
        difference = _unlike(GRADIENT, *pair, graph.scales[step.index])
        if difference and parent is not None:
            sentence = message(
                "{node} passed operand {operand} ({name}) {difference}; what {node} received was "
                "right",
                node=graph.name(step.index),
                operand=operand,
                name=graph.names.get(parent) or graph.name(parent),
                difference=difference.sentence,
            )
            parting = Parting(step.index, operand, in_backward=True)
            yield Divergence(sentence, parting, is_dtype=difference.is_dtype)


def _side_by_side(
    step: TraceStep, expected: TraceStep
) -> Iterator[tuple[Array | None, Array | None] | None]:
    """Yield what a node passed to each of its operands and what it should have.

    None for an operand that another one has replaced. Operands may have changed places.
    """
    if step.parents == expected.parents:
        yield from zip_longest(step.handed, expected.handed)
        return
    handed = list(zip(step.parents, step.handed, strict=False))
    for parent, right in zip(expected.parents, expected.handed, strict=False):
        match = next((pair for pair in handed if pair[0] == parent), None)
        if match is not None:
            handed.remove(match)
        yield None if match is None else (match[1], right)


# ----- Two arrays -----


GRADIENT, VALUE = message("gradient"), message("value")


def differs(actual: NumericArray, expected: NumericArray, scale: float) -> bool:
    """Whether shapes or values differ by more than rounding in numbers of that `scale`."""
    return actual.shape != expected.shape or bool(
        wrong_entries(actual, expected, scale=scale).any()
    )


class _Mismatch(NamedTuple):
    sentence: Message
    is_dtype: bool = False
    """Whether only the dtype is another, and the numbers are right."""


def _unlike(
    noun: Message, actual: Array | None, expected: Array | None, scale: float
) -> _Mismatch | None:
    """Return how two arrays differ: in shape, in value, or only in dtype; None if they agree.

    `scale` is the size of the numbers that they were computed from.
    """
    if actual is None or expected is None:
        if actual:
            return _Mismatch(
                message("a {noun} of shape {shape}, expected none", noun=noun, shape=actual.shape)
            )
        if expected:
            return _Mismatch(
                message("no {noun}, expected one of shape {shape}", noun=noun, shape=expected.shape)
            )
        return None
    arrays = actual.numpy(), expected.numpy()
    if not differs(*arrays, scale):
        return None if arrays[0].dtype == arrays[1].dtype else _other_dtype(noun, *arrays)
    difference, explanation = _both(noun, *arrays, scale), fingerprint(*arrays)
    if explanation is None:
        return _Mismatch(difference)
    return _Mismatch(
        message("{difference} ({explanation})", difference=difference, explanation=explanation)
    )


def _other_dtype(noun: Message, actual: NumericArray, expected: NumericArray) -> _Mismatch:
    sentence = message(
        "a {noun} of dtype {actual}, expected {expected}",
        noun=noun,
        actual=actual.dtype,
        expected=expected.dtype,
    )
    return _Mismatch(sentence, is_dtype=True)


def _both(noun: Message, actual: NumericArray, expected: NumericArray, scale: float) -> Message:
    """Describe two arrays that differ: their shapes, or all their values if few, or the first."""
    if actual.shape != expected.shape:
        return message(
            "a {noun} of shape {actual}, expected {expected}",
            noun=noun,
            actual=actual.shape,
            expected=expected.shape,
        )
    if expected.size <= 4:
        texts = format_distinct(actual, expected)
        return message(
            "the {noun} {actual}, expected {expected}",
            noun=noun,
            actual=texts[0],
            expected=texts[1],
        )
    at = tuple(np.argwhere(wrong_entries(actual, expected, scale=scale))[0].tolist())
    texts = format_distinct(actual[at], expected[at])
    return message(
        "a {noun} of shape {shape} with {actual} at {index}, expected {expected}",
        noun=noun,
        shape=expected.shape,
        actual=texts[0],
        index=list(at),
        expected=texts[1],
    )
