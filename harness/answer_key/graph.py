"""Walks through one graph, cut apart, and the nodes of a broken one matched with the correct ones.

They are matched from the output down, operand by operand, so that neither engine has to number its
nodes or to order its walk like the other.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from msgspec.structs import replace

from harness.core.run import Array, TraceStep


def walks(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
    """One list a backward pass: a node to which nothing was handed is where a new one starts."""
    found: list[list[TraceStep]] = []
    awaited: set[int] = set()
    for step in steps:
        if step.index not in awaited:
            found.append([])
            awaited = set()
        found[-1].append(step)
        awaited.discard(step.index)
        awaited.update(index for index, _ in given(step))
    return found


def given(step: TraceStep) -> list[tuple[int, Array]]:
    """Whom a node handed which cotangents; only those that take part in the walk."""
    pairs = zip(step.parents, step.handed, strict=False)
    return [(index, array) for index, array in pairs if index is not None and array is not None]


@dataclass(frozen=True)
class Graph:
    """The correct walk by its indices, outputs first, and what its leaves are called."""

    steps: dict[int, TraceStep]
    names: Mapping[int, str]

    def name(self, index: int) -> str:
        """A leaf by its name; a result by its op, and where that occurs again, by its place."""
        step = self.steps.get(index)
        if step is None:
            return "a node to which the correct walk does not come"
        if not step.op:
            return f"the leaf {self.names.get(index) or f'of shape {step.value.shape}'}"
        same = sorted(other.index for other in self.steps.values() if other.op == step.op)
        if len(same) == 1:
            return f"`{step.op}`"
        return f"`{step.op}` (number {same.index(index) + 1} of {len(same)} from the inputs)"

    @cached_property
    def givers(self) -> Mapping[int, list[int]]:
        """The nodes that hand each node a cotangent, in the order of the walk."""
        givers: defaultdict[int, list[int]] = defaultdict(list)
        for step in self.steps.values():
            for index in dict(given(step)):
                givers[index].append(step.index)
        return givers


def match(broken: list[TraceStep], graph: Graph) -> tuple[list[TraceStep], str | None]:
    """The broken walk with the correct one's indices; and where the graphs differ, if they do.

    A node without a counterpart is left out.
    """
    mine = {step.index: step for step in broken}
    numbers: dict[int | None, int] = {}
    twins: dict[int, int] = {}
    pairs: deque[tuple[str, int | None, int | None]] = deque()
    pairs.append(("the output", broken[0].index, next(iter(graph.steps))))
    difference = None
    while pairs and not difference:
        place, here, there = pairs.popleft()
        kinds = _kind(here, mine), _kind(there, graph.steps)
        if None not in kinds and kinds[0] != kinds[1]:
            difference = f"{place} is {kinds[0]}, correct is {kinds[1]}"
        if here is None or there is None:
            continue
        known = there in twins
        if twins.setdefault(there, here) != here or numbers.setdefault(here, there) != there:
            difference = difference or f"{place} is another node than in the correct one"
        elif not known and None not in kinds:
            parents = zip_longest(mine[here].parents, graph.steps[there].parents)
            name = graph.name(there)
            pairs.extend((f"operand {i} of {name}", *pair) for i, pair in enumerate(parents))
    return [_renumbered(step, numbers) for step in broken if step.index in numbers], difference


def _kind(index: int | None, steps: Mapping[int, TraceStep]) -> str | None:
    """What a node is; None where the walk did not come to it, so that nobody knows."""
    if index is None:
        return "cut off from the walk"
    if index not in steps:
        return None
    return f"the result of `{steps[index].op}`" if steps[index].op else "a leaf"


def _renumbered(step: TraceStep, numbers: Mapping[int | None, int]) -> TraceStep:
    return replace(step, index=numbers[step.index], parents=tuple(map(numbers.get, step.parents)))
