"""Recorded backward walks: their passes, the matching of two of them, and their visits as a trail.

Nodes are matched by what they compute, and leaves by their values. A node's identity is its op and
the identities of its operands, from the leaves up. Nodes whose identity occurs once in both walks
are the same node. The others are matched from the output down, operand by operand, so a node whose
operands have changed still has a counterpart.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest

import numpy as np
from msgspec.structs import replace

from harness.core.message import Kind, Message, message, verbatim
from harness.core.rounding import largest
from harness.core.run import MORE, VISIT, Array, Digest, NumericArray, TraceStep
from harness.runs.digests import CALLS, DEPTH, Numbers, add_digest


def forward_order(steps: Sequence[TraceStep]) -> dict[int, TraceStep]:
    """Return the nodes of a walk by index: operands first, else in the order of their indices.

    Raises CycleError if a node is computed from itself, as a broken engine may record it.
    """
    nodes = {step.index: step for step in steps}
    sorter = TopologicalSorter(
        {index: [p for p in step.parents if p in nodes] for index, step in nodes.items()}
    )
    sorter.prepare()
    ordered, ready = dict[int, TraceStep](), list[int]()
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], reverse=True)
        index = ready.pop()
        ordered[index] = nodes[index]
        sorter.done(index)
    return ordered


def backward_passes(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
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
class WalkGraph:
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
    def scales(self) -> Mapping[int, float]:
        """The largest cotangent on the way to each node; if it cancels, its rounding is left."""
        scales: defaultdict[int, float] = defaultdict(float)
        for step in self.steps.values():
            scales[step.index] = max(scales[step.index], largest(step.cotangent.numpy()))
            for index, array in passed_on(step):
                scales[index] = max(scales[index], scales[step.index], largest(array.numpy()))
        return scales

    @cached_property
    def value_scales(self) -> Mapping[int, float]:
        """The largest value that each node was computed from, or its own value."""
        scales: dict[int, float] = {}
        for step in sorted(self.steps.values(), key=lambda step: step.index):
            operands = [scales.get(index, 0.0) for index in step.parents if index is not None]
            scales[step.index] = max(largest(step.value.numpy()), *operands, 0.0)
        return scales

    @cached_property
    def users(self) -> Mapping[int, list[int]]:
        """The nodes that pass each node a cotangent, in the order of the walk."""
        users: defaultdict[int, list[int]] = defaultdict(list)
        for step in self.steps.values():
            for index in dict(passed_on(step)):
                users[index].append(step.index)
        return users


@dataclass(frozen=True)
class WalkMatch:
    """The nodes of the broken walk, matched with those of the correct one."""

    graph: WalkGraph
    broken: Sequence[TraceStep]
    twins: Mapping[int, int]
    """The index in the broken walk of each node of the correct one that has a counterpart."""
    visits: list[TraceStep]
    """The steps that have a counterpart, with the indices of the correct walk."""
    places: Mapping[int, Message]
    """The places of nodes whose counterpart is of another kind; nothing below them is matched."""
    difference: Message | None
    """The first difference between the graphs."""
    replaced: Sequence[tuple[int, TraceStep, TraceStep]] = ()
    """Where a node that both graphs have uses another operand: the node, in the correct walk; the
    operand, and the one that is expected."""

    def name(self, index: int) -> Message:
        """Return the name of a node, or its place if its counterpart is of another kind."""
        return self.places.get(index) or self.graph.name(index)

    @property
    def lost_leaves(self) -> list[int]:
        """The leaves of the correct walk that the broken one does not have, in their order."""
        known = set(self.twins.values())
        if any(not step.op and step.index not in known for step in self.broken):
            return []  # one of these may be a leaf with another value
        return sorted(
            index
            for index, step in self.graph.steps.items()
            if not step.op and index not in self.twins
        )

    def renumbered(self) -> list[TraceStep]:
        """Return the broken walk with the indices of the correct one; new nodes follow them."""
        numbers: dict[int | None, int] = {here: there for there, here in self.twins.items()}
        following = max([*self.graph.steps, *numbers.values()], default=-1) + 1
        for index in sorted({step.index for step in self.broken} - numbers.keys()):
            numbers[index] = following
            following += 1
        return [_renumbered(step, numbers) for step in self.broken]

    def inserted(self) -> list[TraceStep]:
        """Return the steps without a counterpart, numbered as in `renumbered`."""
        return [
            step
            for step in self.renumbered()
            if step.index not in self.graph.steps and step.index not in self.twins
        ]


def match_walks(broken: Sequence[TraceStep], graph: WalkGraph) -> WalkMatch:
    """WalkMatch the nodes of a broken walk with those of the correct one.

    The engines may number their nodes and order their walks differently.
    """
    steps = {step.index: step for step in broken}
    same = _same_nodes(steps, graph.steps)
    back = {there: here for here, there in same.items() if here is not None}
    numbers: dict[int | None, int] = {}
    twins: dict[int, int] = {}
    places: dict[int, Message] = {}
    replaced: list[tuple[int, TraceStep, TraceStep]] = []
    pairs: deque[tuple[Message, int | None, int | None, int | None]] = deque()
    pairs.append((message(Kind.OUTPUT), broken[0].index, next(iter(graph.steps)), None))
    difference = None
    while pairs:
        place, here, there, user = pairs.popleft()
        kinds = _kind(here, steps), _kind(there, graph.steps)
        is_alike = None in kinds or kinds[0] == kinds[1]
        is_other = same.get(here) != there if here in same else there in back
        if not is_alike or (is_other and None not in (here, there)):
            shown = (
                graph.name(same[here]) if is_other and here in same else kinds[0],
                graph.name(there) if is_other and there in graph.steps else kinds[1],
            )
            difference = difference or (
                message("{place} is a different node in the correct graph", place=place)
                if str(shown[0]) == str(shown[1])
                else message(Kind.ARRAY, array=place, actual=shown[0], expected=shown[1])
            )
        if (
            (is_other or not is_alike)
            and user is not None
            and here in steps
            and there in graph.steps
        ):
            replaced.append((user, steps[here], graph.steps[there]))
        if here is None or there is None or is_other:
            continue
        is_matched = there in twins
        if twins.get(there, here) != here or numbers.get(here, there) != there:
            difference = difference or message(
                "{place} is a different node in the correct graph", place=place
            )
            continue
        twins[there], numbers[here] = here, there
        if not is_alike:
            places[there] = place
        elif not is_matched and None not in kinds:
            name = graph.name(there)
            parents = steps[here].parents, graph.steps[there].parents
            pairs.extend(
                (message("operand {operand} of {node}", operand=i, node=name), *pair, there)
                for i, pair in enumerate(_operand_pairs(*parents))
            )
    twins |= back
    numbers |= same
    visited = [step for step in broken if numbers.get(step.index) in graph.steps]
    visits = [_renumbered(step, numbers) for step in visited]
    return WalkMatch(graph, broken, twins, visits, places, difference, replaced)


def _operand_pairs(
    broken: Sequence[int | None], correct: Sequence[int | None]
) -> list[tuple[int | None, int | None]]:
    """Return the operands of two nodes side by side.

    If the constants are at other places, the operands that are not constants follow in their order.
    """
    rest = [[index for index in side if index is not None] for side in (broken, correct)]
    pairs = list(zip_longest(broken, correct))
    moved = any((one is None) != (other is None) for one, other in pairs)
    return pairs + (list(zip(*rest, strict=True)) if moved and len(rest[0]) == len(rest[1]) else [])


def _same_nodes(
    broken: Mapping[int, TraceStep], correct: Mapping[int, TraceStep]
) -> dict[int | None, int]:
    """Return the nodes that compute the same, by their indices: of the broken walk, the correct."""
    names = dict[object, int]()
    try:
        sides = [_identities(steps, names) for steps in (broken, correct)]
    except CycleError:
        return {}
    counts = [Counter(side.values()) for side in sides]
    correct_by_identity = {identity: index for index, identity in sides[1].items()}
    return {
        index: correct_by_identity[identity]
        for index, identity in sides[0].items()
        if counts[0][identity] == counts[1][identity] == 1
    }


def _identities(steps: Mapping[int, TraceStep], names: dict[object, int]) -> dict[int, int]:
    """Return a number for what each node computes; `names` are those given so far."""
    identities: dict[int, int] = {}
    for index, step in forward_order(list(steps.values())).items():
        parents = tuple(None if p is None else identities.get(p, -1) for p in step.parents)
        own = (
            (step.op, parents) if step.op else (step.value.dtype, step.value.shape, step.value.data)
        )
        identities[index] = names.setdefault(own, len(names))
    return identities


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


# ----- Visits: what each node received, and what it passed on -----


def visits(steps: Iterable[TraceStep], most: int = CALLS) -> dict[str, Digest]:
    """Return the trail of recorded walks, to be added to that of the functions.

    A node is what it computes: its op, shape and value, and those of the operands that need a
    gradient. An operand that holds the same numbers, but was not yet broadcast, makes another node,
    since it gets the sum of its copies' gradients. A node may be visited several times in a pass,
    each time with a part of its cotangent: then the sum counts. `most` visits of an op are recorded
    one by one.
    """
    trail, counts = dict[str, Digest](), Counter[str]()
    for walk in backward_passes(list(steps)):
        values = {step.index: step.value.numpy() for step in walk}
        by_node = defaultdict[int, list[TraceStep]](list)
        for step in walk:
            by_node[step.index].append(step)
        for parts in by_node.values():
            name = VISIT + parts[0].op
            number, counts[name] = counts[name], counts[name] + 1
            for end, value in (("in", _node(parts[0], values)), ("out", _given_and_passed(parts))):
                numbers = Numbers(exact=True)
                numbers.add(value, 0.0 if number < most else float(number % 1009), DEPTH)
                place = number if number < most else MORE
                add_digest(trail, f"{name}#{place} {end}", numbers.digest)
    return trail


def _node(step: TraceStep, values: Mapping[int, NumericArray]) -> list[object]:
    operands = [None if index is None else values.get(index) for index in step.parents]
    arrays = [array for array in (values[step.index], *operands) if array is not None]
    shapes = str([[length for length in array.shape if length > 1] for array in arrays])
    needs = str([index is not None for index in step.parents])
    return [values[step.index], shapes, needs, *operands]


def _given_and_passed(parts: Sequence[TraceStep]) -> list[NumericArray | None]:
    """Return the cotangent of a node, and those of its operands that need one."""
    places = [place for place, parent in enumerate(parts[0].parents) if parent is not None]
    handed = [
        _total([_array(step.handed[place : place + 1]) for step in parts]) for place in places
    ]
    return [_total([step.cotangent.numpy() for step in parts]), *handed]


def _array(handed: Sequence[Array | None]) -> NumericArray | None:
    return handed[0].numpy() if handed and handed[0] else None


def _total(arrays: Sequence[NumericArray | None]) -> NumericArray | None:
    """Return the sum of arrays; None if there is none, or if their shapes differ."""
    known = [array for array in arrays if array is not None]
    if len({array.shape for array in known}) != 1:
        return None
    return np.sum(known, axis=0) if len(known) > 1 else known[0]
