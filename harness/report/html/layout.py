"""The places of a small graph's nodes: layers, from the leaves at the top to the output.

Every node stands one layer below its lowest operand (longest path). An edge that crosses a layer
has a lane of its own there. Nodes of a layer are ordered by where their neighbours stand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP = 22
"""Pixels between two nodes of a layer."""

LANE = 10
"""The width of the lane of an edge that crosses a layer."""

RISE = 46
"""Pixels between two layers, in which the edges run."""

SWEEPS = 4
"""The number of times that the layers are reordered, down and up."""

Operands = Mapping[int, Sequence[int | None]]
"""The operands of each node, which comes after them; None for one that is not shown."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Placed:
    """Where everything stands, in pixels."""

    corners: Mapping[int, Point]
    """The top left corner of each node."""
    routes: Mapping[tuple[int, int], Sequence[Point]]
    """The points of each edge, from the operand down to the result; by result and operand."""
    width: float
    height: float


@dataclass(frozen=True)
class _Item:
    """A node; or, with an operand, the edge to it where it crosses a layer."""

    node: int
    operand: int | None = None
    layer: int = 0


def place(operands: Operands, sizes: Mapping[int, Point]) -> Placed:
    """Return the places of a graph's nodes, whose widths and heights are `sizes`."""
    layer = _layers(operands)
    layers, links = _items(operands, layer)
    order = _order(layers, links)

    def width(items: Iterable[_Item]) -> float:
        wide = [sizes[item.node][0] if item.operand is None else LANE for item in items]
        return sum(wide) + GAP * (len(wide) - 1)

    total = max(map(width, order.values()))
    centre, tops, bottoms = dict[_Item, float](), dict[int, float](), dict[int, float]()
    y = 0.0
    for number, items in sorted(order.items()):
        left = (total - width(items)) / 2
        for item in items:
            centre[item] = left + width([item]) / 2
            left += width([item]) + GAP
        tops[number] = y
        bottoms[number] = y + max(sizes[item.node][1] for item in items if item.operand is None)
        y = bottoms[number] + RISE
    corners = {n: (centre[_Item(n)] - sizes[n][0] / 2, tops[layer[n]]) for n in operands}
    routes = {}
    for node, parents in operands.items():
        known = [(parent, i) for i, parent in enumerate(parents) if parent is not None]
        known.sort(key=lambda pair: centre[_Item(pair[0])])
        for slot, (parent, operand) in enumerate(known, start=1):
            start = centre[_Item(parent)], corners[parent][1] + sizes[parent][1]
            x, y_end = corners[node]
            end = x + sizes[node][0] * (slot - 0.5) / len(known), y_end
            lanes = [_Item(node, operand, n) for n in range(layer[parent] + 1, layer[node])]
            crossed = [
                (centre[lane], y) for lane in lanes for y in (tops[lane.layer], bottoms[lane.layer])
            ]
            routes[node, operand] = [start, *crossed, end]
    return Placed(corners, routes, total, y - RISE)


def _layers(operands: Operands) -> dict[int, int]:
    layer = dict[int, int]()
    users = defaultdict[int, list[int]](list)
    for node, parents in operands.items():
        known = [parent for parent in parents if parent is not None]
        layer[node] = max((layer[parent] + 1 for parent in known), default=0)
        for parent in known:
            users[parent].append(node)
    for node, parents in operands.items():  # a leaf stands right above the first that uses it
        if users[node] and all(parent is None for parent in parents):
            layer[node] = min(layer[user] for user in users[node]) - 1
    return layer


def _items(
    operands: Operands, layer: Mapping[int, int]
) -> tuple[dict[int, list[_Item]], dict[_Item, list[_Item]]]:
    """Return the items of each layer, and the neighbours of each item."""
    layers, links = defaultdict[int, list[_Item]](list), defaultdict[_Item, list[_Item]](list)
    for node, parents in operands.items():
        layers[layer[node]].append(_Item(node))
        for operand, parent in enumerate(parents):
            if parent is None:
                continue
            crossed = range(layer[parent] + 1, layer[node])
            lanes = [_Item(node, operand, number) for number in crossed]
            for lane in lanes:
                layers[lane.layer].append(lane)
            for above, below in pairwise([_Item(parent), *lanes, _Item(node)]):
                links[above].append(below)
                links[below].append(above)
    return dict(layers), links


def _order(
    layers: Mapping[int, Sequence[_Item]], links: Mapping[_Item, Sequence[_Item]]
) -> dict[int, list[_Item]]:
    """Return the items of each layer from left to right, near their neighbours."""
    order = {number: list(items) for number, items in layers.items()}
    places = dict[_Item, float]()

    def settle(number: int) -> None:
        last = max(len(order[number]) - 1, 1)
        places.update((item, i / last) for i, item in enumerate(order[number]))

    def middle(item: _Item) -> float:
        near = links.get(item) or [item]
        return sum(places[other] for other in near) / len(near)

    for number in order:
        settle(number)
    for sweep in range(SWEEPS):
        for number in sorted(order, reverse=bool(sweep % 2)):
            order[number].sort(key=middle)
            settle(number)
    return order
