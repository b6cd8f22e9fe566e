"""Heat maps, curves, and the difference of two gradients."""

import math
import re

import numpy as np
import pytest

from harness.report.html.charts import compare, loss_curves
from harness.report.html.tiles import HEIGHT, MOST, WIDE, short, size_of, tile
from harness.report.language import open_language


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
    picture = loss_curves([3.0, 2.0, 1.0], [3.0, math.inf, 1.0], ("a", "b"))
    whole, ended = re.findall(r'class="curve \w+" d="([^"]*)"', picture)
    assert (whole.count("L"), ended.count("L")) == (2, 0)
    assert loss_curves([math.nan], [math.inf], ("a", "b")) == ""


ROWS = np.arange(1.0, 13.0).reshape(4, 3)


def numbers(picture: str) -> str:
    (text,) = re.findall('aria-label="([^"]*)"', picture)
    return str(text)


def test_a_difference_up_to_rounding_is_zero() -> None:
    expected = np.array([1.0, 2.0, math.inf, math.nan])
    tiles = compare("x", expected, np.array([np.nextafter(1, 2), 2.5, math.inf, 1.0]))
    assert numbers(tiles.difference) == "0, 0.5, 0, nan"
    assert tiles.formula == ""


def test_what_the_fingerprint_explains_is_subtracted_as_it_says() -> None:
    tiles = compare("x", ROWS.sum(0), ROWS)
    assert (tiles.expected_shape, tiles.actual_shape) == ("(3,)", "(4, 3)")
    assert tiles.formula == "got.sum(axis=0) - expected"
    assert numbers(tiles.difference) == "0, 0, 0"
    spanish = compare("x", ROWS, ROWS.sum(0), open_language("es"))
    assert spanish.formula == "obtenido - esperado.sum(axis=0)"


def test_where_nothing_explains_the_shapes_there_is_no_difference() -> None:
    tiles = compare("x", ROWS.sum(0), ROWS[:2] ** 2)
    assert (tiles.difference, tiles.formula) == ("", "")
