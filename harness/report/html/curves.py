"""The losses of a correct and of a broken training as two curves in SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BELOW, RIGHT = 560, 240, 52, 26, 96
"""Pixels: of the picture, and of the space around the plot."""


def curves(clean: Sequence[float], broken: Sequence[float], names: tuple[str, str]) -> str:
    """Return both curves over the steps; the scale is logarithmic if all losses are positive.

    Numbers that are not finite end a curve.
    """
    series = [_finite(clean), _finite(broken)]
    values = [value for each in series for value in each]
    if not values:
        return ""
    low, high = min(values), max(values)
    is_log = low > 0 and high / low > 20
    scale = math.log if is_log else float
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
