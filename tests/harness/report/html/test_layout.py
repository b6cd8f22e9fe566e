"""The layout of small graphs."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.report.html.graph import RISE, place


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
