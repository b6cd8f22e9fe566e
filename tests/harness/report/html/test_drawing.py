"""Heat maps, curves and the pictures of a scene."""

import math
import re
from graphlib import CycleError

import numpy as np
import pytest
from msgspec import structs

from harness.core.run import TraceStep, pack
from harness.report.html.charts import curves
from harness.report.html.graph import draw, make_scene
from harness.report.html.tiles import HEIGHT, MOST, WIDE, short, size_of, tile


def cells(picture: str) -> dict[tuple[int, int], str]:
    """The shade at each row and column."""
    shades = {}
    for shade, d in re.findall(r'<path class="(\w+)" d="([^"]*)"/>', picture):
        for x, y, span, height, back in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", d):
            width = {HEIGHT: WIDE}.get(int(height), int(height))
            assert span == back
            for column in range(int(x) // width, (int(x) + int(span)) // width):
                shades[int(y) // int(height), column] = shade
    return shades


@pytest.mark.parametrize(
    "shape", [(), (0,), (3, 0), (0, 3), (3,), (1, 5), (4, 3), (2, 3, 4), (30, 40)]
)
def test_a_tile_shows_each_number_in_its_cell(shape: tuple[int, ...]) -> None:
    array = np.resize([4.0, 4.0, -4.0, 1.0, 0.0], shape)
    rows, columns = (math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (1, array.size)
    picture = tile(array, 4.0)
    shown = array.reshape(rows, columns)[:MOST, :MOST]
    shades = np.select([shown == 4, shown == -4, shown == 1], ["p5", "n5", "p2"], "z")
    assert cells(picture) == dict(np.ndenumerate(shades))
    assert ("…" in picture) == (rows > MOST or columns > MOST)
    assert min(size_of(array)) > 0


def test_shades_show_sign_and_size_and_what_is_not_finite() -> None:
    picture = tile(np.array([4.0, 1.0, 0.0, -4.0, math.nan]), 4.0)
    assert re.findall(r'<path class="(\w+)"', picture) == ["p5", "p2", "z", "n5", "nan"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1.2, "1.2"), (-0.125, "-.12"), (1234.5, "1e3"), (math.inf, "∞"), (-2.0, "-2")],
)
def test_a_number_is_written_in_a_few_characters(number: float, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *[(-0.00012, "-1e-4"), (0.00012, ".0001")],
        *[(1.3e12, "1e12"), (-1.3e12, "-1e12"), (1e-12, "1e-12"), (-1e-12, "-…")],
        *[(1e-310, "+…"), (-1e300, "-…"), (1e100, "1e100"), (-123456.0, "-1e5")],
    ],
)
def test_a_number_that_does_not_fit_its_cell_is_a_sign(number: float, text: str) -> None:
    assert short(number) == text


def test_a_curve_ends_where_its_numbers_are_not_finite() -> None:
    picture = curves([3.0, 2.0, 1.0], [3.0, math.inf, 1.0], ("a", "b"))
    whole, ended = re.findall(r'class="curve \w+" d="([^"]*)"', picture)
    assert (whole.count("L"), ended.count("L")) == (2, 0)
    assert curves([math.nan], [math.inf], ("a", "b")) == ""


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
    assert [str(scene.broken.told(i)) for i in range(2)] == [
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
