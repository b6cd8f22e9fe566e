"""A kill matrix as Markdown, for documentation and for the summary of a CI run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from harness.core.vocabulary import visible
from harness.matrix.records import BreakRow, Matrix


def to_markdown(matrix: Matrix) -> str:
    """Return the whole matrix: problems first, then one table per family, then what follows."""
    return visible("\n".join(_lines(matrix)) + "\n")


def _lines(matrix: Matrix) -> Iterator[str]:
    engine = matrix.engine
    on = f"`{engine.name}`" + (f" with `{engine.variant}`" if engine.variant else "")
    caught = sum(bool(row.caught_by) for row in matrix.breaks)
    yield f"# Kill matrix of {on}"
    yield ""
    yield f"{caught} of {len(matrix.breaks)} breaks are caught by a diagnostic."
    yield from _section("Problems", [f"- {_text(p)}" for p in matrix.problems])
    lines = [f"- `{d.break_}` {d.sign} {_text(d.text)}" for d in matrix.differences or ()]
    yield from _section("Differences from the committed matrix", lines)
    reasons = [f"- `{name}`: {_text(reason)}" for name, reason in matrix.skipped.items()]
    yield from _section("Skipped", reasons)
    yield from _section("Not caught", [_lost(r) for r in matrix.breaks if not r.caught_by])
    yield from _families(matrix)
    yield from _diagnostics(matrix)


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {heading}", "", *lines)


def _lost(row: BreakRow) -> str:
    pardon = f" Pardoned ({row.pardon.reason}): {row.pardon.sentence}" if row.pardon else ""
    return f"- `{row.break_}`, {row.fate}: {_text(row.why + pardon)}"


def _families(matrix: Matrix) -> Iterator[str]:
    ran = [row.name for row in matrix.diagnostics if row.name not in matrix.skipped]
    heads = ["break", "outcome", *ran, "smallest that shows it"]
    for family, rows in groupby(
        sorted(matrix.breaks, key=lambda row: (row.family, row.break_)), key=lambda row: row.family
    ):
        table = _table(heads, (_row(row, ran) for row in rows))
        yield from _section(f"Family {family}", table)
    if matrix.breaks:
        yield from (
            "",
            "● catches it, ★ only this one catches it, · misses it, ? could not judge it, "
            "blank: judged no wrong run.",
        )


def _row(row: BreakRow, ran: Sequence[str]) -> list[str]:
    alone = len(row.caught_by) == 1
    signs = dict.fromkeys(row.declined, "?") | dict.fromkeys(row.missed_by, "·")
    signs |= dict.fromkeys(row.caught_by, "★" if alone else "●")
    marks = [signs.get(name, "") for name in ran]
    least = f"`{row.witness.probe}`, {row.witness.diagnostic}" if row.witness else ""
    return [f"`{row.break_}`", row.headline, *marks, least]


def _diagnostics(matrix: Matrix) -> Iterator[str]:
    heads = ["diagnostic", "cost", "catches", "recall", "false alarms", "alone"]
    rows = (
        [
            row.name,
            row.cost,
            str(row.caught),
            "" if row.recall is None else f"{row.recall:.0%}",
            str(row.false_alarms),
            ", ".join(f"`{name}`" for name in row.sole),
        ]
        for row in matrix.diagnostics
        if row.name not in matrix.skipped
    )
    yield from _section("Diagnostics", _table(heads, rows))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines]


def _text(text: str) -> str:
    """Return the text on one line, with `|` and `<` escaped."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
