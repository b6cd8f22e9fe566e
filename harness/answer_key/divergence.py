"""The first divergence: the node of the graph at which a broken backward pass first goes wrong.

What is said is the earliest thing wrong in the order of events: the graph that was built, the
values that were computed in it, then, along the walk: who was visited, what arrived, what was
handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.graph import Graph, given, match, walks
from harness.answer_key.margin import agree, wrong_entries
from harness.answer_key.naming import told_apart
from harness.core.run import Array, NumericArray, TraceStep


def first_divergence(
    broken: Sequence[TraceStep], correct: Sequence[TraceStep], names: Mapping[int, str]
) -> str | None:
    """Say where the walk of `broken` first parts from that of `correct`; None where it does not.

    Both are in the order of the walk, outputs first. `names` names leaves by their index in
    `correct`. Where several backward passes were made, they are compared in turn. None also where
    either trace is empty: an engine that cannot record its walk.
    """
    passes = walks(broken), walks(correct)
    for number, (mine, right) in enumerate(zip(*passes, strict=False), start=1):
        for sentence in _divergences(mine, right, names):
            return sentence if len(passes[1]) == 1 else f"in backward pass {number}: {sentence}"
    if all(passes) and len(passes[0]) != len(passes[1]):
        return f"{len(passes[0])} backward passes were made, correct is {len(passes[1])}"
    return None


def _divergences(
    broken: list[TraceStep], correct: list[TraceStep], names: Mapping[int, str]
) -> Iterator[str]:
    """What is wrong, the earliest first. Later ones may follow from it, and are not to be read."""
    graph = Graph({step.index: step for step in correct}, names)
    matched, difference = match(broken, graph)
    if difference:
        yield f"the graph is another one: {difference}"
    visits = [step for step in matched if step.index in graph.steps]
    yield from _wrong_values(visits, graph)
    yield from _wrong_cotangents(visits, graph)


# ----- The forward pass -----


def _wrong_values(visits: list[TraceStep], graph: Graph) -> Iterator[str]:
    """The wrong values, inputs first: what the first of them was computed from is right."""
    wrong = {
        step.index: _unlike("value", step.value, graph.steps[step.index].value) for step in visits
    }
    for index in reversed(graph.steps):
        if not wrong.get(index):
            continue
        name, users = graph.name(index), [user for user in graph.givers[index] if user in wrong]
        if users and not any(wrong[user] for user in users):
            yield (
                f"{name} ended with {wrong[index]}, yet what was computed from it is right: "
                "it was changed in place afterwards, or the error cancelled"
            )
        elif graph.steps[index].op:
            yield f"the forward pass of {name} gave {wrong[index]}; its operands were right"
        else:
            yield f"{name} has {wrong[index]}, before anything was computed from it"


# ----- The backward pass -----


def _wrong_cotangents(visits: list[TraceStep], graph: Graph) -> Iterator[str]:
    """What is wrong at each visit, in the order of the walk; then who was never visited."""
    ever, done = {step.index for step in visits}, set[int]()
    for step in visits:
        awaited = [giver for giver in graph.givers[step.index] if giver not in done]
        if not ever.issuperset(awaited):
            break
        if awaited:
            name, giver = graph.name(step.index), graph.name(awaited[0])
            yield f"{name} was visited too early: before {giver}, which had a cotangent for it"
        done.add(step.index)
        yield from _wrong_arrival(step, visits, graph)
        yield from _wrong_rule(step, graph)
    for index in graph.steps:
        if index not in ever:
            name, giver = graph.name(index), graph.name(graph.givers[index][0])
            yield f"the walk never came to {name}, though {giver} handed it a cotangent"


def _wrong_arrival(step: TraceStep, visits: list[TraceStep], graph: Graph) -> Iterator[str]:
    """Whether what was handed to a node, all of it right, adds up to what arrived there."""
    wrong = _unlike("cotangent", step.cotangent, graph.steps[step.index].cotangent)
    if not wrong:
        return
    pairs = [pair for visit in visits for pair in given(visit)]
    handed = [array.numpy() for index, array in pairs if index == step.index]
    if not handed:
        yield f"the walk starts from {wrong}"
        return
    if len(handed) == 1:
        reason = "the one cotangent that was handed to it was right, and was changed on its way"
    else:
        arrived = step.cotangent.numpy()
        ends = {"only the first": handed[0], "only the last": handed[-1]}
        counted = [which for which, array in ends.items() if agree(arrived, array)]
        how = f"{counted[0]} counted" if counted else "they do not add up to that"
        reason = f"the {len(handed)} cotangents that were handed to it were right, but {how}"
    yield f"at {graph.name(step.index)} arrived {wrong}; {reason}"


def _wrong_rule(step: TraceStep, graph: Graph) -> Iterator[str]:
    """Whether the rule of an op, given the right cotangent, handed on the right ones."""
    right = graph.steps[step.index]
    pairs = zip_longest(step.handed, right.handed)
    for operand, (parent, pair) in enumerate(zip(right.parents, pairs, strict=False)):
        wrong = _unlike("cotangent", *pair)
        if wrong and parent is not None:
            name, which = graph.name(step.index), graph.names.get(parent) or graph.name(parent)
            yield (
                f"{name} handed operand {operand} ({which}) {wrong}; "
                f"what arrived at {name} was right"
            )


# ----- Two arrays -----


def _unlike(noun: str, mine: Array | None, right: Array | None) -> str | None:
    """How two arrays differ: in shape, then in dtype, then in value; None where they agree."""
    if mine is None or right is None:
        here, there = (f"a {noun} of shape {a.shape}" if a else f"no {noun}" for a in (mine, right))
        return None if mine is right else f"{here}, correct is {there}"
    broken, correct = mine.numpy(), right.numpy()
    if broken.dtype != correct.dtype and broken.shape == correct.shape:
        return f"a {noun} of {broken.dtype}, correct is {correct.dtype}"
    if agree(broken, correct):
        return None
    explanation = fingerprint(broken, correct)
    return _both(noun, broken, correct) + (f" ({explanation})" if explanation else "")


def _both(noun: str, broken: NumericArray, correct: NumericArray) -> str:
    """Two arrays that differ: their shapes, or all their values if few, else the first ones."""
    if broken.shape != correct.shape:
        return f"a {noun} of shape {broken.shape}, correct is {correct.shape}"
    if correct.size <= 4:
        mine, right = told_apart(broken, correct)
        return f"the {noun} {mine}, correct is {right}"
    at = tuple(np.argwhere(wrong_entries(broken, correct))[0].tolist())
    mine, right = told_apart(broken[at], correct[at])
    return f"a {noun} of shape {correct.shape} with {mine} at {list(at)}, correct is {right}"
