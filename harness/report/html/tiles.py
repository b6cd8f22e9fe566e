"""An array as a small heat map in SVG."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray

from harness.core.rounding import widened
from harness.core.run import NumericArray

MOST = 8
"""The most rows and columns that are drawn; the rest is left out, which an ellipsis shows."""

LEVELS = 5
"""The number of shades of each sign."""

_TEXT_ON = {LEVELS - 1: ' class="dark"', LEVELS: ' class="darkest"'}
"""The class of a number on a dark shade, on which it has a colour of its own."""

FEW = 5
"""Up to this many columns, the numbers are written into the cells."""

LONGEST = 5
"""The most characters of a number, so that it fits its cell."""

WIDE, HEIGHT, NARROW, SMALL = 28, 16, 11, 7
"""Pixels of a cell: with a number, without one, and in a plain tile, which has no numbers."""


def as_table(array: NumericArray) -> tuple[NDArray[np.float64], bool]:
    """Return at most `MOST` rows and columns of an array, and whether anything was left out.

    The leading axes become rows. A complex array is drawn by its real part.
    """
    numbers = np.real(widened(array)).astype(np.float64)
    *leading, columns = numbers.shape or (1,)
    table = numbers.reshape(prod(leading), columns)
    return table[:MOST, :MOST], table.shape[0] > MOST or table.shape[1] > MOST


def size_of(array: NumericArray, *, plain: bool = False) -> tuple[int, int]:
    """Return the width and height of a tile in pixels."""
    table, cut = as_table(array)
    rows, columns = table.shape
    width, height = _cell(columns, plain)
    return max(columns, 1) * width + 2, max(rows, 1) * height + 2 + 9 * cut


def _cell(columns: int, plain: bool) -> tuple[int, int]:
    if plain:
        return SMALL, SMALL
    return (WIDE, HEIGHT) if columns <= FEW else (NARROW, NARROW)


def tile(
    array: NumericArray, scale: float, x: float = 0, y: float = 0, *, plain: bool = False
) -> str:
    """Return the SVG of an array whose top left corner is at (x, y).

    `scale` is the magnitude of the darkest shade.
    """
    table, cut = as_table(array)
    rows, columns = table.shape
    width, height = _cell(columns, plain)
    wide, high = max(columns, 1) * width, max(rows, 1) * height
    numbers = _numbers(table, scale) if width == WIDE else ""
    more = f'<text class="more" x="{wide / 2:g}" y="{high + 9}">…</text>' if cut else ""
    return (
        f'<g class="tile" transform="translate({x + 1:g} {y + 1:g})">'
        f"{_cells(table, scale, width, height)}"
        f'<rect class="frame" width="{wide}" height="{high}"/>{numbers}{more}</g>'
    )


def _cells(table: NDArray[np.float64], scale: float, width: int, height: int) -> str:
    """Return one path for each shade; neighbouring cells of a shade are one rectangle."""
    shades = defaultdict[str, str](str)
    for row, numbers in enumerate(table):
        column = 0
        for shade, run in groupby(_shade(float(number), scale) for number in numbers):
            count = len(list(run))
            span = count * width
            shades[shade] += f"M{column * width} {row * height}h{span}v{height}h-{span}z"
            column += count
    return "".join(f'<path class="{shade}" d="{d}"/>' for shade, d in shades.items())


def _numbers(table: NDArray[np.float64], scale: float) -> str:
    texts = []
    for (row, column), number in np.ndenumerate(table):
        shade = _TEXT_ON.get(_level(float(number), scale), "")
        x, y = column * WIDE + WIDE // 2, row * HEIGHT + HEIGHT - 4.5
        texts.append(f'<text{shade} x="{x}" y="{y:g}">{short(float(number))}</text>')
    return f'<g class="num">{"".join(texts)}</g>'


def _level(number: float, scale: float) -> int:
    if not np.isfinite(number) or not scale or not number:
        return 0
    return max(1, min(LEVELS, int(np.ceil(abs(number) / scale * LEVELS - 1e-9))))


def _shade(number: float, scale: float) -> str:
    if not np.isfinite(number):
        return "nan"
    level = _level(number, scale)
    return f"{'n' if number < 0 else 'p'}{level}" if level else "z"


def short(number: float) -> str:
    """Return a number in at most `LONGEST` characters: `-.12`, `1e9`, `NaN`.

    If the number does not fit, only its sign is shown: `-…`.
    """
    if not np.isfinite(number):
        return {"nan": "NaN", "inf": "∞", "-inf": "-∞"}[str(number)]
    for digits in (3, 2, 1):
        text = f"{number:.{digits}g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
        text = text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
        if len(text) <= 4:
            return text
    for fitting in (text, f"{number:.0e}".replace("e-0", "e-")):
        if len(fitting) <= LONGEST:
            return fitting
    return "-…" if number < 0 else "+…"
