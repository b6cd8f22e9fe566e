"""A scene as two pictures whose parts appear step by step.

What is always visible comes first, and each step adds a group, so a browser only needs to hide the
groups of later steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from harness.core.rounding import agree, largest
from harness.core.run import Array
from harness.report.html.layout import Placed, place
from harness.report.html.scene import Scene, Walk
from harness.report.html.tiles import size_of, tile

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
    scales = {
        index: largest(*(w.by_index[index].cotangent.numpy() for w in (walk, correct) if w))
        for index in walk.by_index
    }
    values = [_value(walk, boxes, index) for index in walk.by_index]
    visits = [_visit(walk, boxes, n, scales, correct) for n in range(len(walk.steps))]
    values += [""] * (scene.forward - len(values))  # the other walk may be longer
    visits += [""] * (scene.backward - len(visits))
    return Picture(name, placed.width, placed.height, "".join(base), (*values, *visits))


def _node(walk: Walk, boxes: _Boxes, index: int) -> str:
    (x, y), (width, height) = boxes.placed.corners[index], boxes.sizes[index]
    kind = "op" if walk.by_index[index].op else "leaf"
    shape = escape(str(walk.by_index[index].value.shape))
    return (
        f'<g class="node {kind}" data-node="{index}">'
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>'
        f'<text class="name" x="{x + PAD:g}" y="{y + 15:g}">{escape(walk.label(index))}</text>'
        f'<text class="shape" x="{x + width - PAD:g}" y="{y + 15:g}">{shape}</text></g>'
    )


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
    path = _path(placed.routes[node, operand])
    return (
        f'<g class="edge" data-edge="{node}.{operand}"><title>{escape(title)}</title>'
        f'<path class="hit" d="{path}"/><path class="line" d="{path}"/></g>'
    )


def _value(walk: Walk, boxes: _Boxes, index: int) -> str:
    (x, y), value = boxes.placed.corners[index], walk.by_index[index].value.numpy()
    return tile(value, largest(value), x + PAD, y + LABEL, plain=True)


def _visit(
    walk: Walk, boxes: _Boxes, number: int, scales: dict[int, float], correct: Walk | None
) -> str:
    """Return what a visit adds: the node's gradient, and what it passes on."""
    step, placed = walk.steps[number], boxes.placed
    (x, y), (width, _) = placed.corners[step.index], boxes.sizes[step.index]
    gradient = step.cotangent.numpy()
    expected = correct.by_index[step.index] if correct else None
    wrong = expected is not None and _differ(step.cotangent, expected.cotangent)
    wide, high = size_of(gradient)
    left, top = x + width - PAD - wide, y + LABEL
    parts = [tile(gradient, scales[step.index], left, top)]
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
        text = escape(str(array.shape))
        half = _chip(array) / 2
        parts.append(
            f'<path class="flow{bad}" d="{_path(points[::-1])}"/>'
            f'<rect class="chip{bad}" x="{at[0] - half:g}" y="{at[1] - 9:g}" '
            f'width="{2 * half:g}" height="17" rx="8"/>'
            f'<text class="chip{bad}" x="{at[0]:g}" y="{at[1] + 4:g}">{text}</text>'
        )
    return "".join(parts)


def _chip(array: Array) -> float:
    """Return the width of the label with the shape of an array that is passed on."""
    return 6.8 * len(str(array.shape)) + 10


def _differ(actual: Array, expected: Array | None) -> bool:
    if expected is None:
        return True
    one, other = actual.numpy(), expected.numpy()
    return one.shape != other.shape or not agree(one, other)
