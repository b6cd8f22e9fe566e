"""The graph of a probe: where its nodes stand, and its pictures step by step."""

import re
from graphlib import CycleError
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from harness.core.run import TraceStep, pack
from harness.report.html.graph import RISE, draw, make_scene, place


@st.composite
def graphs(draw: st.DrawFn) -> dict[int, tuple[int | None, ...]]:
    """The operands of each node, which come before it."""
    return {
        node: tuple(
            draw(st.lists(st.one_of(st.none(), st.integers(0, node - 1)), max_size=3))
            if node
            else ()
        )
        for node in range(draw(st.integers(1, 12)))
    }


@given(graphs(), st.integers(20, 200))
def test_nodes_do_not_overlap_and_edges_run_down_to_them(
    operands: dict[int, tuple[int | None, ...]], width: int
) -> None:
    sizes = {node: (width + 7.0 * node, 30.0 + node) for node in operands}
    placed = place(operands, sizes)
    for one, other in combinations(operands, 2):
        (x, y), (u, v) = placed.corners[one], placed.corners[other]
        (w, h), (p, q) = sizes[one], sizes[other]
        assert x + w <= u or u + p <= x or y + h <= v or v + q <= y
    edges = {(n, i) for n, ps in operands.items() for i, p in enumerate(ps) if p is not None}
    assert placed.routes.keys() == edges
    for (node, operand), points in placed.routes.items():
        parent = operands[node][operand]
        assert parent is not None
        assert points[0][1] == placed.corners[parent][1] + sizes[parent][1]
        assert points[-1][1] == placed.corners[node][1] >= points[0][1] + RISE
        assert all(above[1] <= below[1] for above, below in pairwise(points))
        x = placed.corners[node][0]
        assert x < points[-1][0] < x + sizes[node][0]


def test_an_edge_runs_beside_the_nodes_of_a_layer_that_it_crosses() -> None:
    operands: dict[int, tuple[int | None, ...]] = {0: (), 1: (0,), 2: (0, 1)}
    sizes = dict.fromkeys(operands, (100.0, 40.0))
    placed = place(operands, sizes)
    _, *crossing, _ = placed.routes[2, 0]
    (x, top), (u, bottom) = crossing
    left = placed.corners[1][0]
    assert x == u
    assert not left <= x <= left + 100
    assert (top, bottom) == (placed.corners[1][1], placed.corners[1][1] + 40)


def step(
    index: int, op: str, parents: tuple[int, ...], gradient: object, *handed: object
) -> TraceStep:
    passed = tuple(pack(array) for array in handed)
    return TraceStep(index, op, parents, pack(np.ones(3)), pack(gradient), passed)


def test_the_two_part_at_the_edge_that_passes_a_wrong_gradient_on() -> None:
    right, wrong = np.ones(3), 2 * np.ones(3)
    leaves = {"x": pack(np.ones(3))}
    clean = [step(1, "f", (0,), right, right), step(0, "", (), right)]
    broken = [step(1, "f", (0,), right, wrong), step(0, "", (), wrong)]
    scene = make_scene(clean, broken, leaves)
    assert scene.parting is not None
    assert (scene.parting.node, scene.parting.operand) == (1, 0)
    assert [str(sentence) for sentence in scene.broken.sentences] == [
        "f received (3,), and passed on (3,) to x",
        "x received (3,)",
    ]
    before, after = draw(scene, "p")
    assert len(before.steps) == len(after.steps) == scene.forward + scene.backward == 4
    assert ["bad" in part for part in before.steps] == [False] * 4
    assert ["bad" in part for part in after.steps] == [False, False, True, True]
    assert make_scene(clean, clean, leaves).parting is None


def test_names_of_an_engine_cannot_become_markup() -> None:
    ones = np.ones(3)
    walk = [step(1, "<script>f</script>", (0,), ones, ones), step(0, "", (), ones)]
    scene = make_scene(walk, walk, {'"><img onerror=alert(1)>': pack(ones)})
    for picture in draw(scene, "p"):
        drawn = picture.base + "".join(picture.steps)
        assert "<script" not in drawn
        assert "<img" not in drawn
        assert "&lt;script&gt;" in drawn


def test_operands_come_first_whatever_their_numbers_are() -> None:
    ones = np.ones(3)
    walk = [step(1, "f", (5,), ones, ones), step(5, "g", (0,), ones, ones), step(0, "", (), ones)]
    scene = make_scene(walk, walk, {})
    assert list(scene.clean.by_index) == [0, 5, 1]
    assert len(draw(scene, "p")[0].steps) == 6
    circular = [step(1, "f", (2,), ones, ones), step(2, "g", (1,), ones, ones)]
    with pytest.raises(CycleError):
        _ = make_scene(circular, circular, {}).clean.by_index


def test_a_node_that_is_visited_twice_appears_once() -> None:
    ones = np.ones(3)
    add, square = step(2, "add", (1, 0), ones, ones, ones), step(1, "f", (0,), ones, ones)
    leaf = step(0, "", (), ones)
    scene = make_scene([add, square, leaf], [add, leaf, square, leaf], {})
    assert (scene.forward, scene.backward) == (3, 4)
    assert [len(picture.steps) for picture in draw(scene, "p")] == [7, 7]


def test_the_shapes_that_a_node_passes_on_do_not_overlap() -> None:
    block = np.ones((2, 12, 4))
    walk = [step(2, "add", (0, 1), block, block, block), *(step(i, "", (), block) for i in (1, 0))]
    walk[0] = structs.replace(walk[0], value=pack(1.0))
    (passed,) = [part for part in draw(make_scene(walk, walk, {}), "p")[0].steps if "chip" in part]
    (x, width), (u, _) = sorted(
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="chip" x="([-.\d]+)" .*?width="([.\d]+)"', passed)
    )
    assert x + width <= u


def test_a_picture_that_would_be_illegible_as_a_whole_is_scrolled() -> None:
    ones = np.ones(3)
    sizes = []
    for length in (3, 30):
        chain = [step(i, "f", (i - 1,), ones, ones) for i in range(length, 0, -1)]
        walk = [*chain, step(0, "", (), ones)]
        sizes.append([picture.is_large for picture in draw(make_scene(walk, walk, {}), "p")])
    assert sizes == [[False, False], [True, True]]
