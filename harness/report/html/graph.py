"""Two recorded walks of one probe as pictures to step through: first values, then gradients.

A `Scene` is what happens, `place` decides where the nodes stand, and `draw` makes the pictures. In
a picture, what is always visible comes first, and each step adds a group, so a browser only needs
to hide the groups of later steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

from harness.answer_key.divergence import Parting, first_pass, parting
from harness.answer_key.walks import WalkGraph, forward_order, match_walks
from harness.core.message import Message, joined, message
from harness.core.rounding import agree, largest
from harness.core.run import Array, TraceStep
from harness.experiment.description import leaf_names
from harness.report.html.tiles import as_table, short, size_of, tile

# ----- What happens: two walks, step by step -----


@dataclass(frozen=True)
class Walk:
    """The first backward walk of a run."""

    steps: tuple[TraceStep, ...]
    """In the order of the walk: the output first."""
    names: Mapping[int, str]
    """The names of the leaves, by index."""

    @cached_property
    def by_index(self) -> dict[int, TraceStep]:
        """The nodes in the order of the forward pass. Raises CycleError as `forward_order` does."""
        return forward_order(self.steps)

    @cached_property
    def operands(self) -> dict[int, tuple[int | None, ...]]:
        """The operands of each node; None for a constant, which has no gradient."""
        known = self.by_index
        return {
            index: tuple(parent if parent in known else None for parent in step.parents)
            for index, step in known.items()
        }

    def label(self, index: int) -> str:
        """Return what a node is called: the name of a leaf, or an op."""
        return self.by_index[index].op or self.names.get(index, "leaf")

    def passed(self, number: int) -> list[tuple[int, int, Array]]:
        """Return what the node at this place of the walk passed on.

        Each item is the number of an operand, the index of its node, and the cotangent.
        """
        step = self.steps[number]
        pairs = zip(self.operands[step.index], step.handed, strict=False)
        return [
            (operand, parent, array)
            for operand, (parent, array) in enumerate(pairs)
            if parent is not None and array
        ]

    @property
    def sentences(self) -> Iterator[Message]:
        """What happens at each place of the walk, in words."""
        for number, step in enumerate(self.steps):
            node = self.label(step.index)
            sentence = message("{node} received {shape}", node=node, shape=step.cotangent.shape)
            parts = [
                message("{shape} to {name}", name=self.label(parent), shape=array.shape)
                for _, parent, array in self.passed(number)
            ]
            if parts:
                sentence = message(
                    "{received}, and passed on {parts}", received=sentence, parts=joined(parts)
                )
            yield sentence


@dataclass(frozen=True)
class Scene:
    """A probe on the unbroken and on the broken engine."""

    clean: Walk
    broken: Walk
    parting: Parting | None
    """Where the two walks first differ; None if they are equal."""

    @property
    def forward(self) -> int:
        """The number of steps of the forward pass: a node each."""
        return max(len(self.clean.by_index), len(self.broken.by_index))

    @property
    def backward(self) -> int:
        """The number of steps of the backward pass: a visit each."""
        return max(len(self.clean.steps), len(self.broken.steps))

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.forward + self.backward

    @property
    def parts_at(self) -> int:
        """The step at which the two pictures first differ; -1 if they never do."""
        if self.parting is None:
            return -1
        if not self.parting.in_backward:
            return list(self.clean.by_index).index(self.parting.node)
        visits = [step.index for step in self.clean.steps]
        return self.forward + visits.index(self.parting.node)

    @property
    def mark(self) -> str:
        """The node, or the node and the operand (`2.1`), at which they first differ."""
        if self.parting is None:
            return ""
        node, operand = self.parting.node, self.parting.operand
        return str(node) if operand is None else f"{node}.{operand}"


def make_scene(
    clean: Sequence[TraceStep], broken: Sequence[TraceStep], leaves: Mapping[str, Array]
) -> Scene:
    """Return the scene of two recorded walks, of which the first passes are shown.

    A node that both have is called by the same name and index in both.
    """
    correct, actual = _walk(first_pass(clean), leaves), first_pass(broken)
    if actual and correct.steps:
        graph = WalkGraph({step.index: step for step in correct.steps}, correct.names)
        actual = tuple(match_walks(actual, graph).renumbered())
    return Scene(correct, _walk(actual, leaves, correct.names), parting(broken, clean))


def _walk(
    steps: tuple[TraceStep, ...],
    leaves: Mapping[str, Array],
    known: Mapping[int, str] | None = None,
) -> Walk:
    known = known or {}
    others = [step for step in steps if step.index not in known]
    free = {name: leaf for name, leaf in leaves.items() if name not in known.values()}
    return Walk(steps, {**leaf_names(others, free), **known})


# ----- Where the nodes stand -----
#
# In layers, from the leaves at the top to the output. Every node stands one layer below its lowest
# operand (longest path). An edge that crosses a layer has a lane of its own there. Nodes of a layer
# are ordered by where their neighbours stand.

APART = 22
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
        return sum(wide) + APART * (len(wide) - 1)

    total = max(map(width, order.values()))
    centre, tops, bottoms = dict[_Item, float](), dict[int, float](), dict[int, float]()
    y = 0.0
    for number, items in sorted(order.items()):
        left = (total - width(items)) / 2
        for item in items:
            centre[item] = left + width([item]) / 2
            left += width([item]) + APART
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


# ----- The pictures -----

LABEL, PAD, GAP = 20, 8, 4
"""Pixels: the height of a node's label, and the space within a node and between chips."""

LEAST = 96
"""The least width of a node."""

WIDEST, HIGHEST = 900, 1000
"""The largest width and height of a picture that is shown as a whole."""


@dataclass(frozen=True)
class Picture:
    """A picture: what is always visible, and what each step adds."""

    id: str
    width: float
    height: float
    base: str
    steps: tuple[str, ...]
    scales: tuple[float, float]
    """The magnitudes of the darkest shade: of the values, and of the gradients."""

    @property
    def is_large(self) -> bool:
        """Whether the picture is scrolled, since it would be illegible as a whole."""
        return self.width > WIDEST or self.height > HIGHEST

    @property
    def box(self) -> str:
        """The value of `viewBox`."""
        return f"-6 -6 {self.width + 12:g} {self.height + 12:g}"


def draw(scene: Scene, prefix: str) -> tuple[Picture, Picture]:
    """Return the pictures of the unbroken and of the broken walk.

    If both walks are of the same graph, every node stands at the same place in both.
    """
    walks = scene.clean, scene.broken
    same = scene.clean.operands == scene.broken.operands
    boxes = [_Boxes((scene.clean, scene.broken) if same else (walk,)) for walk in walks]
    clean = _draw(walks[0], boxes[0], f"{prefix}-clean", scene, None)
    return clean, _draw(walks[1], boxes[1], f"{prefix}-broken", scene, walks[0] if same else None)


class _Boxes:
    """The sizes and places of the nodes, which have room for the tiles of all these walks."""

    def __init__(self, walks: Sequence[Walk]) -> None:
        self.sizes = dict[int, tuple[float, float]]()
        for index, step in walks[0].by_index.items():
            nodes = [walk.by_index[index] for walk in walks]
            values = [size_of(node.value.numpy(), plain=True) for node in nodes]
            gradients = [size_of(node.cotangent.numpy()) for node in nodes]
            left = max(width for width, _ in values)
            text = 7.5 * len(walks[0].label(index)) + 6.6 * len(str(step.value.shape)) + 3 * PAD
            tiles = left + max(w for w, _ in gradients) + 3 * PAD
            chips = [_chip(array) + GAP for node in nodes for array in node.handed if array]
            width = max(LEAST, text, tiles, len(step.parents) * max(chips, default=0))
            height = LABEL + max(h for _, h in (*values, *gradients)) + PAD
            self.sizes[index] = width, height
        self.placed = place(walks[0].operands, self.sizes)


def _draw(walk: Walk, boxes: _Boxes, name: str, scene: Scene, correct: Walk | None) -> Picture:
    placed = boxes.placed
    base = [_edge(walk, placed, node, operand) for node, operand in placed.routes]
    base += [_node(walk, boxes, index) for index in walk.by_index]
    scales = scales_of(scene)
    values = [_value(walk, boxes, index, scales[0]) for index in walk.by_index]
    visits = [_visit(walk, boxes, n, scales[1], correct) for n in range(len(walk.steps))]
    values += [""] * (scene.forward - len(values))  # the other walk may be longer
    visits += [""] * (scene.backward - len(visits))
    return Picture(name, placed.width, placed.height, "".join(base), (*values, *visits), scales)


def scales_of(scene: Scene) -> tuple[float, float]:
    """Return the largest magnitudes of all values and of all gradients, on both sides."""
    steps = (*scene.clean.steps, *scene.broken.steps)
    values = largest(*(step.value.numpy() for step in steps))
    return values, largest(*(step.cotangent.numpy() for step in steps))


def _node(walk: Walk, boxes: _Boxes, index: int) -> str:
    (x, y), (width, height) = boxes.placed.corners[index], boxes.sizes[index]
    kind = "op" if walk.by_index[index].op else "leaf"
    shape = escape(str(walk.by_index[index].value.shape or ""))
    return (
        f'<g class="node {kind}" data-node="{index}">'
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>'
        f'<text class="name" x="{x + PAD:g}" y="{y + 15:g}">{escape(walk.label(index))}</text>'
        f'<text class="shape" x="{x + width - PAD:g}" y="{y + 15:g}">{shape}</text></g>'
    )


HEAD = 5
"""The half width of an arrowhead."""


def _head(tip: Point, up: bool = False) -> str:
    """Return an arrowhead that points down or up."""
    (x, y), back = tip, 8 if up else -8
    return f"M{x - HEAD:.4g} {y + back:.4g}L{x:.4g} {y:.4g}L{x + HEAD:.4g} {y + back:.4g}"


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return a smooth line through points that go down or up."""
    parts = [f"M{points[0][0]:.4g} {points[0][1]:.4g}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        parts.append(f"C{x0:.4g} {middle:.4g} {x1:.4g} {middle:.4g} {x1:.4g} {y1:.4g}")
    return "".join(parts)


def _edge(walk: Walk, placed: Placed, node: int, operand: int) -> str:
    parent = walk.operands[node][operand]
    title = f"{walk.label(parent or 0)} -> {walk.label(node)}"
    points = placed.routes[node, operand]
    path = _path(points)
    return (
        f'<g class="edge" data-edge="{node}.{operand}"><title>{escape(title)}</title>'
        f'<path class="hit" d="{path}"/><path class="line" d="{path}{_head(points[-1])}"/></g>'
    )


def _value(walk: Walk, boxes: _Boxes, index: int, scale: float) -> str:
    (x, y), value = boxes.placed.corners[index], walk.by_index[index].value.numpy()
    return tile(value, scale, x + PAD, y + LABEL, plain=True)


def _visit(walk: Walk, boxes: _Boxes, number: int, scale: float, correct: Walk | None) -> str:
    """Return what a visit adds: the node's gradient, and what it passes on."""
    step, placed = walk.steps[number], boxes.placed
    (x, y), (width, _) = placed.corners[step.index], boxes.sizes[step.index]
    gradient = step.cotangent.numpy()
    expected = correct.by_index[step.index] if correct else None
    wrong = expected is not None and _differ(step.cotangent, expected.cotangent)
    wide, high = size_of(gradient)
    left, top = x + width - PAD - wide, y + LABEL
    parts = [tile(gradient, scale, left, top, kind="gradient")]
    if wrong:
        parts.append(
            f'<rect class="bad" x="{left - 2:g}" y="{top - 2:g}" width="{wide + 4}" '
            f'height="{high + 4}"/>'
        )
    for operand, _, array in walk.passed(number):
        points = placed.routes[step.index, operand]
        right = expected.handed[operand] if expected and operand < len(expected.handed) else array
        bad = " bad" if _differ(array, right) else ""
        at = points[-1][0], points[-1][1] - 13
        text = escape(_passed(array))
        half = _chip(array) / 2
        parts.append(
            f'<path class="flow{bad}" d="{_path(points[::-1])}{_head(points[0], up=True)}"/>'
            f'<rect class="chip{bad}" x="{at[0] - half:g}" y="{at[1] - 9:g}" '
            f'width="{2 * half:g}" height="17" rx="8"/>'
            f'<text class="chip{bad}" x="{at[0]:g}" y="{at[1] + 4:g}">{text}</text>'
        )
    return "".join(parts)


def _chip(array: Array) -> float:
    """Return the width of the label of an array that is passed on."""
    return 6.8 * len(_passed(array)) + 10


def _passed(array: Array) -> str:
    """Return the label of an array that is passed on: its shape, or a single number."""
    return str(array.shape) if array.shape else short(float(as_table(array.numpy())[0][0, 0]))


def _differ(actual: Array, expected: Array | None) -> bool:
    if expected is None:
        return True
    one, other = actual.numpy(), expected.numpy()
    return one.shape != other.shape or not agree(one, other)
