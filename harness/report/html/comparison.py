"""The expected and the actual gradient of a leaf as heat maps, and their difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.answer_key.fingerprint import find_explanation
from harness.core.rounding import largest, rounding_of, widened, wrong_entries
from harness.core.run import NumericArray
from harness.report.html.tiles import as_table, size_of, tile
from harness.report.language import ENGLISH, Language


@dataclass(frozen=True)
class Tiles:
    """The expected and the actual gradient of a leaf."""

    name: str
    expected: str
    actual: str
    difference: str
    """Empty if the shapes differ and nothing explains why."""
    formula: str
    """How the difference is computed, as code, if the shapes differ."""
    expected_shape: str
    actual_shape: str


def compare(
    name: str, expected: NumericArray, actual: NumericArray, say: Language = ENGLISH
) -> Tiles:
    """Return the heat maps of both gradients of the leaf `name`, and of their difference.

    If the shapes differ, the difference is the one that the fingerprint explains, such as
    `got.sum(axis=0) - expected`.
    """
    scale = largest(expected, actual)
    difference, formula = _difference(actual, expected)
    return Tiles(
        name=name,
        expected=_svg(expected, scale),
        actual=_svg(actual, scale),
        difference="" if difference is None else _svg(difference, scale),
        formula=formula.format(actual=say("got"), expected=say("expected")),
        expected_shape=str(expected.shape),
        actual_shape=str(actual.shape),
    )


def _difference(actual: NumericArray, expected: NumericArray) -> tuple[NumericArray | None, str]:
    """Return the difference, and the code that computes it if the shapes differ.

    Differences that rounding explains are 0. None if nothing explains the shapes.
    """
    formula, pair, rounding = "", (actual, expected), rounding_of(actual, expected)
    if actual.shape != expected.shape:
        explanation = find_explanation(actual, expected)
        if explanation is None:
            return None, ""
        formula, pair = explanation.difference, (explanation.actual, explanation.expected)
    with np.errstate(all="ignore"):  # inf - inf is NaN
        difference = widened(pair[0]) - widened(pair[1])
    return np.where(wrong_entries(*pair, rounding), difference, 0), formula


def _svg(array: NumericArray, scale: float) -> str:
    width, height = size_of(array)
    rows = as_table(array)[0]
    text = "; ".join(", ".join(f"{number:.3g}" for number in row) for row in rows)
    return (
        f'<svg role="img" aria-label="{text}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{tile(array, scale)}</svg>'
    )
