"""The difference of two gradients, of equal or different shapes."""

import math
import re

import numpy as np

from harness.report.html.charts import compare
from harness.report.language import open_language

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
