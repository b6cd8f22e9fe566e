"""The first divergence: the node of the graph at which a broken backward pass first goes wrong.

That is the earliest difference in the order of events: the graph that was built, its values, and
then, along the walk, which node was visited, what it received and what it passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.graph import Graph, match, passed_on, walks
from harness.answer_key.margin import agree, wrong_entries
from harness.answer_key.naming import format_distinct
from harness.core.message import Message, message
from harness.core.run import Array, NumericArray, TraceStep


def first_divergence(
    broken: Sequence[TraceStep], correct: Sequence[TraceStep], names: Mapping[int, str]
) -> Message | None:
    """Return where the walk of `broken` first differs from that of `correct`; None if nowhere.

    Both are in the order of the walk, outputs first. `names` names leaves by their index in
    `correct`. Several backward passes are compared in turn. None also if either trace is empty,
    as that of an engine that cannot record its walk.
    """
    passes = walks(broken), walks(correct)
    for number, (actual, expected) in enumerate(zip(*passes, strict=False), start=1):
        for divergence in _divergences(actual, expected, names):
            if len(passes[1]) == 1:
                return divergence
            return message(
                "in backward pass {number}: {divergence}", number=number, divergence=divergence
            )
    if all(passes) and len(passes[0]) != len(passes[1]):
        return message(
            "{actual} backward passes were made, expected {expected}",
            actual=len(passes[0]),
            expected=len(passes[1]),
        )
    return None


def _divergences(
    broken: list[TraceStep], correct: list[TraceStep], names: Mapping[int, str]
) -> Iterator[Message]:
    """Yield what is wrong, the earliest first; later differences may follow from it."""
    graph = Graph({step.index: step for step in correct}, names)
    matched, difference = match(broken, graph)
    if difference:
        yield message("the graph is different: {difference}", difference=difference)
    visits = [step for step in matched if step.index in graph.steps]
    yield from _wrong_values(visits, graph)
    yield from _wrong_cotangents(visits, graph)


# ----- The forward pass -----


def _wrong_values(visits: list[TraceStep], graph: Graph) -> Iterator[Message]:
    """Yield the wrong values, inputs first; the operands of the first one are right."""
    wrong = {
        step.index: _unlike(VALUE, step.value, graph.steps[step.index].value) for step in visits
    }
    for index in reversed(graph.steps):
        difference = wrong.get(index)
        if not difference:
            continue
        name, users = graph.name(index), [user for user in graph.users[index] if user in wrong]
        if users and not any(wrong[user] for user in users):
            yield message(
                "{node} ended with {difference}, but everything computed from it is right: it was"
                " changed in place afterwards, or the error cancelled",
                node=name,
                difference=difference,
            )
        elif graph.steps[index].op:
            yield message(
                "the forward pass of {node} gave {difference}; its operands were right",
                node=name,
                difference=difference,
            )
        else:
            yield message(
                "{node} has {difference}, before anything was computed from it",
                node=name,
                difference=difference,
            )


# ----- The backward pass -----


def _wrong_cotangents(visits: list[TraceStep], graph: Graph) -> Iterator[Message]:
    """Yield what is wrong at each visit, in the order of the walk; then the nodes never visited."""
    visited, done = {step.index for step in visits}, set[int]()
    for step in visits:
        awaited = [user for user in graph.users[step.index] if user not in done]
        if not visited.issuperset(awaited):
            break
        if awaited:
            yield message(
                "{node} was visited too early: before {user}, which had a cotangent for it",
                node=graph.name(step.index),
                user=graph.name(awaited[0]),
            )
        done.add(step.index)
        yield from _wrong_arrival(step, visits, graph)
        yield from _wrong_rule(step, graph)
    for index in graph.steps:
        if index not in visited:
            yield message(
                "the walk never visited {node}, although {user} passed it a cotangent",
                node=graph.name(index),
                user=graph.name(graph.users[index][0]),
            )


def _wrong_arrival(step: TraceStep, visits: list[TraceStep], graph: Graph) -> Iterator[Message]:
    """Yield how a received cotangent is wrong, although those passed to the node are right."""
    wrong = _unlike(COTANGENT, step.cotangent, graph.steps[step.index].cotangent)
    if not wrong:
        return
    pairs = [pair for visit in visits for pair in passed_on(visit)]
    handed = [array.numpy() for index, array in pairs if index == step.index]
    if not handed:
        yield message("the walk starts from {difference}", difference=wrong)
        return
    if len(handed) == 1:
        reason = message("its only incoming cotangent was right, but was changed on the way")
    else:
        reason = message(
            "its {count} incoming cotangents were right, but {mistake}",
            count=len(handed),
            mistake=_mistaken_sum(step.cotangent.numpy(), handed),
        )
    yield message(
        "{node} received {difference}; {reason}",
        node=graph.name(step.index),
        difference=wrong,
        reason=reason,
    )


def _mistaken_sum(actual: NumericArray, terms: Sequence[NumericArray]) -> Message:
    """Return what was computed instead of the sum of the terms."""
    if agree(actual, terms[0]):
        return message("only the first counted")
    if agree(actual, terms[-1]):
        return message("only the last counted")
    return message("they do not add up to that")


def _wrong_rule(step: TraceStep, graph: Graph) -> Iterator[Message]:
    """Yield each wrong cotangent that an op's rule passed on, although its own was right."""
    expected = graph.steps[step.index]
    pairs = zip_longest(step.handed, expected.handed)
    for operand, (parent, pair) in enumerate(zip(expected.parents, pairs, strict=False)):
        wrong = _unlike(COTANGENT, *pair)
        if wrong and parent is not None:
            yield message(
                "{node} passed operand {operand} ({name}) {difference}; what {node} received was "
                "right",
                node=graph.name(step.index),
                operand=operand,
                name=graph.names.get(parent) or graph.name(parent),
                difference=wrong,
            )


# ----- Two arrays -----


COTANGENT, VALUE = message("cotangent"), message("value")


def _unlike(noun: Message, actual: Array | None, expected: Array | None) -> Message | None:
    """Return how two arrays differ: in shape, then in dtype, then in value; None if they agree."""
    if actual is None or expected is None:
        if actual:
            return message(
                "a {noun} of shape {shape}, expected none", noun=noun, shape=actual.shape
            )
        if expected:
            return message(
                "no {noun}, expected one of shape {shape}", noun=noun, shape=expected.shape
            )
        return None
    arrays = actual.numpy(), expected.numpy()
    if arrays[0].dtype != arrays[1].dtype and arrays[0].shape == arrays[1].shape:
        return message(
            "a {noun} of dtype {actual}, expected {expected}",
            noun=noun,
            actual=arrays[0].dtype,
            expected=arrays[1].dtype,
        )
    if agree(*arrays):
        return None
    difference, explanation = _both(noun, *arrays), fingerprint(*arrays)
    if explanation is None:
        return difference
    return message("{difference} ({explanation})", difference=difference, explanation=explanation)


def _both(noun: Message, actual: NumericArray, expected: NumericArray) -> Message:
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
    at = tuple(np.argwhere(wrong_entries(actual, expected))[0].tolist())
    texts = format_distinct(actual[at], expected[at])
    return message(
        "a {noun} of shape {shape} with {actual} at {index}, expected {expected}",
        noun=noun,
        shape=expected.shape,
        actual=texts[0],
        index=list(at),
        expected=texts[1],
    )
