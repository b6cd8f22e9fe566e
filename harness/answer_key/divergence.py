"""The first divergence: the node of the graph at which a broken backward pass first goes wrong.

That is the earliest difference in the order of events: the graph that was built, its values, and
then, along the walk, which node was visited, what it received and what it passed on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from msgspec.structs import replace

from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.naming import format_distinct
from harness.core.message import Message, message, verbatim
from harness.core.rounding import agree, wrong_entries
from harness.core.run import Array, NumericArray, TraceStep


def first_divergence(
    broken: Sequence[TraceStep], correct: Sequence[TraceStep], names: Mapping[int, str]
) -> Message | None:
    """Return where the walk of `broken` first differs from that of `correct`; None if nowhere.

    Both are in the order of the walk, outputs first. `names` names leaves by their index in
    `correct`. Several backward passes are compared in turn. None also if either trace is empty,
    as that of an engine that cannot record its walk.
    """
    passes = _walks(broken), _walks(correct)
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
    graph = _Graph({step.index: step for step in correct}, names)
    matched, difference = _match(broken, graph)
    if difference:
        yield message("the graph is different: {difference}", difference=difference)
    visits = [step for step in matched if step.index in graph.steps]
    yield from _wrong_values(visits, graph)
    yield from _wrong_cotangents(visits, graph)


# ----- The graph -----


def _walks(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
    """Split a trace into backward passes; a node that received nothing starts a new one."""
    passes: list[list[TraceStep]] = []
    awaited: set[int] = set()
    for step in steps:
        if step.index not in awaited:
            passes.append([])
            awaited = set()
        passes[-1].append(step)
        awaited.discard(step.index)
        awaited.update(index for index, _ in _passed_on(step))
    return passes


def _passed_on(step: TraceStep) -> list[tuple[int, Array]]:
    """Return the cotangents that a node passed on, each with the index of its parent."""
    pairs = zip(step.parents, step.handed, strict=False)
    return [(index, array) for index, array in pairs if index is not None and array is not None]


@dataclass(frozen=True)
class _Graph:
    """The correct walk by its indices, outputs first, and the names of its leaves."""

    steps: dict[int, TraceStep]
    names: Mapping[int, str]

    def name(self, index: int) -> Message:
        """Return a leaf's name, or a result's op, numbered if the op occurs more than once."""
        step = self.steps.get(index)
        if step is None:
            return message("a node that the correct walk never visits")
        if not step.op:
            if name := self.names.get(index):
                return message("the leaf {name}", name=name)
            return message("the leaf of shape {shape}", shape=step.value.shape)
        same = sorted(other.index for other in self.steps.values() if other.op == step.op)
        if len(same) == 1:
            return verbatim(f"`{step.op}`")
        return message(
            "`{op}` (number {number} of {count} from the inputs)",
            op=step.op,
            number=same.index(index) + 1,
            count=len(same),
        )

    @cached_property
    def users(self) -> Mapping[int, list[int]]:
        """The nodes that pass each node a cotangent, in the order of the walk."""
        users: defaultdict[int, list[int]] = defaultdict(list)
        for step in self.steps.values():
            for index in dict(_passed_on(step)):
                users[index].append(step.index)
        return users


def _match(broken: list[TraceStep], graph: _Graph) -> tuple[list[TraceStep], Message | None]:
    """Return the broken walk with the indices of the correct one, and where the graphs differ.

    Nodes are matched from the output down, operand by operand, so that the engines may number
    their nodes and order their walks differently. A node without a counterpart is left out.
    """
    steps = {step.index: step for step in broken}
    numbers: dict[int | None, int] = {}
    twins: dict[int, int] = {}
    pairs: deque[tuple[Message, int | None, int | None]] = deque()
    pairs.append((message("the output"), broken[0].index, next(iter(graph.steps))))
    difference = None
    while pairs and not difference:
        place, here, there = pairs.popleft()
        kinds = _kind(here, steps), _kind(there, graph.steps)
        if None not in kinds and kinds[0] != kinds[1]:
            difference = message(
                "{array} is {actual}, expected {expected}",
                array=place,
                actual=kinds[0],
                expected=kinds[1],
            )
        if here is None or there is None:
            continue
        is_matched = there in twins
        if twins.setdefault(there, here) != here or numbers.setdefault(here, there) != there:
            difference = difference or message(
                "{place} is a different node in the correct graph", place=place
            )
        elif not is_matched and None not in kinds:
            parents = zip_longest(steps[here].parents, graph.steps[there].parents)
            name = graph.name(there)
            pairs.extend(
                (message("operand {operand} of {node}", operand=i, node=name), *pair)
                for i, pair in enumerate(parents)
            )
    return [_renumbered(step, numbers) for step in broken if step.index in numbers], difference


def _kind(index: int | None, steps: Mapping[int, TraceStep]) -> Message | None:
    """Return what a node is; None if the walk never visited it."""
    if index is None:
        return message("cut off from the walk")
    if index not in steps:
        return None
    op = steps[index].op
    return message("the result of `{op}`", op=op) if op else message("a leaf")


def _renumbered(step: TraceStep, numbers: Mapping[int | None, int]) -> TraceStep:
    return replace(step, index=numbers[step.index], parents=tuple(map(numbers.get, step.parents)))


# ----- The forward pass -----


def _wrong_values(visits: list[TraceStep], graph: _Graph) -> Iterator[Message]:
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


def _wrong_cotangents(visits: list[TraceStep], graph: _Graph) -> Iterator[Message]:
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


def _wrong_arrival(step: TraceStep, visits: list[TraceStep], graph: _Graph) -> Iterator[Message]:
    """Yield how a received cotangent is wrong, although those passed to the node are right."""
    wrong = _unlike(COTANGENT, step.cotangent, graph.steps[step.index].cotangent)
    if not wrong:
        return
    pairs = [pair for visit in visits for pair in _passed_on(visit)]
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


def _wrong_rule(step: TraceStep, graph: _Graph) -> Iterator[Message]:
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
