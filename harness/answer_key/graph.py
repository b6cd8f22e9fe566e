"""The backward passes of a trace, and the nodes of a broken graph matched with the correct ones.

Nodes are matched from the output down, operand by operand, so that the engines may number their
nodes and order their walks differently.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from msgspec.structs import replace

from harness.core.message import Message, message, verbatim
from harness.core.run import Array, TraceStep


def walks(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
    """Split a trace into backward passes; a node that received nothing starts a new one."""
    passes: list[list[TraceStep]] = []
    awaited: set[int] = set()
    for step in steps:
        if step.index not in awaited:
            passes.append([])
            awaited = set()
        passes[-1].append(step)
        awaited.discard(step.index)
        awaited.update(index for index, _ in passed_on(step))
    return passes


def passed_on(step: TraceStep) -> list[tuple[int, Array]]:
    """Return the cotangents that a node passed on, each with the index of its parent."""
    pairs = zip(step.parents, step.handed, strict=False)
    return [(index, array) for index, array in pairs if index is not None and array is not None]


@dataclass(frozen=True)
class Graph:
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
            for index in dict(passed_on(step)):
                users[index].append(step.index)
        return users


def match(broken: list[TraceStep], graph: Graph) -> tuple[list[TraceStep], Message | None]:
    """Return the broken walk with the indices of the correct one, and where the graphs differ.

    A node without a counterpart is left out.
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
