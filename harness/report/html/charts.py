"""Losses as curves, and gradients as heat maps beside the expected ones, in SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from harness.answer_key.fingerprint import find_explanation
from harness.core.rounding import largest, rounding_of, widened, wrong_entries
from harness.core.run import NumericArray
from harness.report.html.tiles import as_table, size_of, tile
from harness.report.language import ENGLISH, Language
from harness.report.view import is_logarithmic

# ----- Losses -----

WIDTH, HEIGHT, LEFT, BELOW, RIGHT = 560, 240, 52, 26, 96
"""Pixels: of the picture, and of the space around the plot."""


def loss_curves(clean: Sequence[float], broken: Sequence[float], names: tuple[str, str]) -> str:
    """Return both curves over the steps; the scale is logarithmic as on the terminal.

    Numbers that are not finite end a curve.
    """
    series = [_finite(clean), _finite(broken)]
    values = [value for each in series for value in each]
    if not values:
        return ""
    low, high = min(values), max(values)
    scale = math.log if is_logarithmic(values) else float
    bottom, top = scale(low), scale(high)
    span = (top - bottom) or 1.0
    steps = max(len(each) for each in series) - 1 or 1

    def at(step: int, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / steps
        return x, 8 + (HEIGHT - BELOW - 8) * (1 - (scale(value) - bottom) / span)

    parts = [
        f'<path class="axis" d="M{LEFT} 8V{HEIGHT - BELOW}H{WIDTH - RIGHT}"/>',
        f'<text class="axis" x="{LEFT - 6}" y="14">{high:.3g}</text>',
        f'<text class="axis" x="{LEFT - 6}" y="{HEIGHT - BELOW}">{low:.3g}</text>',
        f'<text class="steps" x="{WIDTH - RIGHT}" y="{HEIGHT - 8}">{steps}</text>',
    ]
    ends = [at(len(each) - 1, each[-1])[1] if each else 0.0 for each in series]
    if abs(ends[0] - ends[1]) < 26:  # the labels would overlap
        middle, order = sum(ends) / 2, (1 if ends[0] > ends[1] else -1)
        ends = [middle + 13 * order, middle - 13 * order]
    for kind, each, name, end in zip(("clean", "broken"), series, names, ends, strict=True):
        if not each:
            continue
        points = "L".join("{:.4g} {:.4g}".format(*at(i, value)) for i, value in enumerate(each))
        x, _ = at(len(each) - 1, each[-1])
        parts.append(
            f'<path class="curve {kind}" d="M{points}"/>'
            f'<text class="{kind}" x="{x + 6:.4g}" y="{end:.4g}">{escape(name)}'
            f'<tspan x="{x + 6:.4g}" dy="12">{each[-1]:.3g}</tspan></text>'
        )
    label = "; ".join(
        f"{name}: {each[0]:.3g} ... {each[-1]:.3g}"
        for name, each in zip(names, series, strict=True)
        if each
    )
    return (
        f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _finite(values: Sequence[float]) -> list[float]:
    """Return the values up to the first that is not finite."""
    ends = (i for i, value in enumerate(values) if not math.isfinite(value))
    return list(values[: next(ends, len(values))])


# ----- Gradients -----


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
