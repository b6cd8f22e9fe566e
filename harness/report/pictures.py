"""Pictures in plain characters: a small array as a heat map, a series as a line, a graph as a list.

They need no colour, and only ASCII if the terminal's encoding has nothing else. The report also
says the same in words.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from harness.core.message import shortened
from harness.core.report import DrawnComparison, DrawnNumbers, Graph, GraphNode
from harness.report.language import Language
from harness.report.terminal import Screen, encodable
from harness.report.view import is_logarithmic

SHADES, ASCII_SHADES = "·░▒▓█", ".-+*#"
"""From zero to the largest number of both arrays."""

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
"""From the lowest to the highest number of both series."""

GAP = "    "

MOST_OF_A_NODE = 20
"""The most characters to show of the name of a node."""

BELOW = 6
"""The indentation of operands that do not fit beside their node."""


def heat_map(console: Screen, arrays: DrawnComparison, width: int) -> Text:
    """Return the expected and the actual array side by side, or one below the other.

    Each entry is its sign and a shade for its size. If the shapes are equal, a third panel marks
    the entries that differ.
    """
    say, expected, actual = console.say, arrays.expected, arrays.actual
    finite = [abs(v) for v in (*expected.values, *actual.values) if math.isfinite(v)]
    largest = max(finite, default=0.0)
    shades = encodable(console, SHADES, ASCII_SHADES)
    panels = [
        _panel(say("expected {shape}", shape=expected.shape), expected, largest, shades),
        _panel(say("broken {shape}", shape=actual.shape), actual, largest, shades),
    ]
    if arrays.wrong:
        marks = ["x" if wrong else "." for wrong in arrays.wrong]
        panels.append([say("x: differs"), *_rows(marks, actual.shape)])
    scale = say("{shade} is {largest}", shade=shades[-1], largest=f"{largest:.3g}")
    return Text("\n".join([*_beside(panels, width), scale]), no_wrap=True)


def curves(
    console: Screen,
    expected: Sequence[float],
    actual: Sequence[float],
    names: tuple[str, str],
    width: int,
) -> Text:
    """Return both series as lines of bars with one scale, each with its first and last number.

    If the numbers differ greatly in size, the scale is logarithmic, and the last line says so.
    """
    say, bars = console.say, encodable(console, BARS, ASCII_BARS)
    series = expected, actual
    finite = [v for values in series for v in values if math.isfinite(v)] or [0.0]
    is_log = is_logarithmic(finite)
    scale = _log if is_log else float
    low, high = scale(min(finite)), scale(max(finite))
    ends = [
        say("{first} to {last}", first=f"{values[0]:.3g}", last=f"{values[-1]:.3g}")
        for values in series
    ]
    label = max(map(len, names))
    room = max(1, width - label - max(map(len, ends)) - 4)
    step = math.ceil(max(map(len, series)) / room)
    lines = [
        f"{name:{label}}  {_line(map(scale, values[::step]), low, high, bars)}  {end}"
        for name, values, end in zip(names, series, ends, strict=True)
    ]
    return Text("\n".join([*lines, *([say("logarithmic scale")] * is_log)]), no_wrap=True)


def graph_list(console: Screen, graph: Graph, width: int) -> Text:
    """Return a graph as a line for each node and its operands; mark where the runs first differ."""
    say, mark = console.say, encodable(console, "✗", "!")
    centre = next(node for node in graph.nodes if node.number == graph.node)
    lines, last = [], 0
    if graph.size > len(graph.nodes):
        lines.append(say("{shown} of {size} nodes", shown=len(graph.nodes), size=graph.size))
    for node, head in zip(graph.nodes, _heads(graph, mark, say), strict=True):
        if node.number > last + 1:
            lines.append("  ...")
        last = node.number
        marked = graph.operand if node is centre else None
        operands = [
            f"{mark} " * (place == marked) + _numbered(operand, say)
            for place, operand in enumerate(node.operands)
        ]
        lines += _with_operands(head, operands, width)
    if last < graph.size:
        lines.append("  ...")
    sentences = [f"{mark} {_legend(graph, centre, say)}"]
    if any(node.inserted for node in graph.nodes):
        sentences.append(f"+ {say('only the broken graph has this')}")
    legend = [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, max(3, width), subsequent_indent="  ")
    ]
    picture = Text("\n".join([*lines, *legend]), no_wrap=True)
    picture.highlight_words([mark], "bold red")
    return picture


def _heads(graph: Graph, mark: str, say: Language) -> Iterator[str]:
    """Yield the number, the name and the shape of each node, in columns."""
    names = [_named(node.name, say) for node in graph.nodes]
    wide, digits = max(map(len, names)), len(str(graph.nodes[-1].number))
    shapes = max(len(str(node.shape)) for node in graph.nodes)
    for node, name in zip(graph.nodes, names, strict=True):
        is_wrong = node.number == graph.node and graph.operand is None
        sign = mark if is_wrong else "+" if node.inserted else " "
        start = f"{sign} {node.number:>{digits}}"
        yield f"{start} {name:{wide}}  {node.shape!s:{shapes}}"


def _with_operands(head: str, operands: Sequence[str], width: int) -> Iterator[str]:
    """Yield a node's line, and more lines for operands that do not fit."""
    lines, line = [], f"{head}  <- "
    for place, operand in enumerate(operands):
        part = operand + ("," if place + 1 < len(operands) else "")
        if len(line) + len(part) > width and line.strip():
            lines.append(line.rstrip())
            line = " " * BELOW
        line += f"{part} "
    yield from (*lines, line.rstrip()) if operands else (head.rstrip(),)


def _legend(graph: Graph, centre: GraphNode, say: Language) -> str:
    node = _numbered((centre.number, centre.name), say)
    if graph.operand is not None:
        return say(
            "the gradient that {node} passes to {operand} is wrong",
            node=node,
            operand=_numbered(centre.operands[graph.operand], say),
        )
    if graph.in_backward:
        return say("the backward passes first differ at {node}", node=node)
    return say("the values first differ at {node}", node=node)


def _numbered(operand: tuple[int, str] | None, say: Language) -> str:
    """Return a node's number and name, by which the others refer to it."""
    if operand is None:
        return say("a constant")
    number, name = operand
    return f"{number} {_named(name, say)}"


def _named(name: str, say: Language) -> str:
    return shortened(name, MOST_OF_A_NODE) or say("leaf")


def _panel(title: str, numbers: DrawnNumbers, largest: float, shades: str) -> list[str]:
    cells = [_cell(value, largest, shades) for value in numbers.values]
    return [title, *_rows(cells, numbers.shape)]


def _cell(value: float, largest: float, shades: str) -> str:
    if not math.isfinite(value):
        return f"{value:+}" if math.isinf(value) else "nan"
    if not value or not largest:
        return f" {shades[0]}"
    level = 1 + min(int(abs(value) / largest * (len(shades) - 1)), len(shades) - 2)
    return f"{'-' if value < 0 else '+'}{shades[level]}"


def _rows(cells: Sequence[str], shape: tuple[int, ...]) -> Iterator[str]:
    columns = shape[-1] if shape else 1
    width = max(map(len, cells))
    for start in range(0, len(cells), columns):
        yield " ".join(f"{cell:>{width}}" for cell in cells[start : start + columns])


def _beside(panels: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of panels side by side, those that do not fit below the others."""
    widths = [max(map(len, panel)) for panel in panels]
    first = 1
    while first < len(panels) and sum(widths[: first + 1]) + first * len(GAP) <= width:
        first += 1
    for row in range(max(map(len, panels[:first]))):
        cells = (panel[row] if row < len(panel) else "" for panel in panels[:first])
        line = GAP.join(f"{cell:{w}}" for cell, w in zip(cells, widths, strict=False))
        yield line.rstrip()
    if rest := panels[first:]:
        yield from _beside(rest, width)


def _line(values: Iterable[float], low: float, high: float, bars: str) -> str:
    return "".join(_bar(value, low, high, bars) for value in values)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _bar(value: float, low: float, high: float, bars: str) -> str:
    if not math.isfinite(value):
        return "?"
    share = (value - low) / (high - low) if high > low else 0.0
    return bars[min(int(share * len(bars)), len(bars) - 1)]
