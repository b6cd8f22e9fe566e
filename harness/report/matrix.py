"""A kill matrix on a terminal, and as Markdown for documentation and the summary of a CI run.

The record decides what is shown: the mark of each break and diagnostic, the families, and the
breaks that nothing catches. This module, like the template for HTML, only draws it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from string import ascii_lowercase

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.core.message import message, shortened, some, visible
from harness.matrix.records import BreakRow, Difference, Mark, Matrix, by_family
from harness.report import markdown_table
from harness.report.terminal import MOST_OF_A_REASON, counted
from harness.report.view import STYLES

SIGNS: Mapping[Mark, str] = {
    "sole": "★",
    "caught": "●",
    "missed": "·",
    "declined": "?",
    "unasked": "",
}

LEGEND = message(
    "● catches it, ★ only this one catches it, · misses it, ? could not judge it, "
    "blank: judged no wrong run."
)

MOST_PROBLEMS = 8
"""The number of problems that the last lines list; the others are counted."""

MOST_NAMES = 3
"""The number of probes that a detail names; the others are counted."""


def show_matrix(console: Console, matrix: Matrix, *, verbose: bool = False) -> None:
    """Print the whole matrix; `verbose` adds how each break is caught, and with which probes."""
    engine = matrix.engine
    on = engine.name + (f" with {engine.variant}" if engine.variant else "")
    size = f"{counted(len(matrix.breaks), 'break')} x {len(matrix.diagnostics)} diagnostics"
    console.print(Text.assemble(("Kill matrix", "bold"), f" of {on}: {size}\n"))
    _show_controls(console, matrix)
    _show_differences(console, matrix.differences)
    _show_lost(console, matrix)
    _show_map(console, matrix, verbose)
    _show_diagnostics(console, matrix)
    _show_verdict(console, matrix)


def show_accepted(console: Console, files: Sequence[object]) -> None:
    """Print which committed matrices were changed."""
    for file in files:
        console.print(Text(f"accepted: {file}", "green"), soft_wrap=True)
    if not files:
        console.print("nothing to accept: the matrix is as committed")
    console.print()


# ----- What is wrong -------------------------------------------------------------------------


def _show_controls(console: Console, matrix: Matrix) -> None:
    violated = [row for row in matrix.controls if row.problems]
    if violated:
        console.print(Text("This matrix does not count: a control fails", "bold red"))
    for row in violated:
        _item(console, Text.assemble((row.control, "bold"), f": {row.says}; but"))
        for problem in row.problems:
            _item(console, Text(problem, "red"), indent=4)
    passed = [row.control for row in matrix.controls if not row.problems]
    if passed:
        console.print(Text(f"Controls passed: {', '.join(passed)}", "green"))
    for name, reason in matrix.skipped.items():
        console.print(Text(f"Skipped: {name}, because {reason}", "yellow"))
    console.print()


def _show_differences(console: Console, differences: Sequence[Difference] | None) -> None:
    if not differences:
        return
    console.print(Text("Not as committed", "bold red"))
    for name, group in groupby(differences, key=lambda difference: difference.break_):
        _item(console, Text(name, "bold"))
        for difference in group:
            style = "red" if difference.sign == "-" else "green"
            _item(console, Text(f"{difference.sign} {difference.text}", style), indent=4)
    console.print()


def _show_lost(console: Console, matrix: Matrix) -> None:
    """Print the breaks that no diagnostic catches, each with the reason."""
    headings = {
        "survived": "Survivors: some probe runs them, no diagnostic catches them",
        "never-reached": "Never reached: no probe runs the patched code, so nothing is known",
        "misplaced": "Misplaced: here, the patch is not the change that the page describes",
        "does-not-apply": "Without a site in this engine",
    }
    for fate, rows in groupby(matrix.lost, key=lambda row: row.fate):
        console.print(Text(headings[fate], "bold"))
        for row in rows:
            sign = STYLES[row.headline]
            _item(console, Text.assemble(sign, " ", (row.break_, "bold"), f" ({row.family})"))
            for line in _about(row):
                _item(console, Text(line), indent=6)
        console.print()


def _about(row: BreakRow) -> list[str]:
    lines = [row.why] if row.why else []
    if row.pardon:
        lines.append(f"pardoned, {row.pardon.reason}: {row.pardon.sentence}")
    if row.caught_elsewhere:
        lines.append(f"skipped here, but caught it before: {', '.join(row.caught_elsewhere)}")
    lines += [
        f"{name} also raises an alarm on the clean engine: {m}"
        for name, m in row.wrong_reason.items()
    ]
    return lines


# ----- Catches -------------------------------------------------------------------------------


def _show_map(console: Console, matrix: Matrix, verbose: bool) -> None:
    names = [row.name for row in matrix.diagnostics]
    letters = dict(zip(names, _letters(), strict=False))
    console.print(Text("Which diagnostic catches which break", "bold"))
    _legend(console, [f"{letters[name]} {name}" for name in names])
    console.print(
        Text(
            "letter: catches it; capital: it alone does; ·: misses it; ?: could not judge it; "
            "blank: judged no wrong run",
            "dim",
        )
    )
    console.print()
    width = max((len(row.break_) for row in matrix.breaks), default=0)
    room = min(width, console.width - 3 - len(names) - len(names) // 5)
    for family, rows in by_family(matrix.breaks):
        caught = sum(bool(row.caught_by) for row in rows)
        console.print(Text.assemble((family, "bold"), f": {caught} of {len(rows)} caught"))
        for row in rows:
            console.print(_line(row, letters, room), no_wrap=True, overflow="ellipsis", crop=False)
            if verbose:
                _show_details(console, row)
        console.print()


def _legend(console: Console, entries: Sequence[str]) -> None:
    """Print as many entries per line as fit, without splitting an entry."""
    text = "   ".join(entry.replace(" ", "\N{NO-BREAK SPACE}") for entry in entries)
    for line in textwrap.wrap(text, console.width, break_on_hyphens=False):
        console.print(Text(line.replace("\N{NO-BREAK SPACE}", " ")))


def _letters() -> Iterable[str]:
    """Yield a letter for each diagnostic, then pairs of letters."""
    yield from ascii_lowercase
    yield from (first + second for first in ascii_lowercase for second in ascii_lowercase)


def _line(row: BreakRow, letters: dict[str, str], room: int) -> Text:
    line = Text.assemble(STYLES[row.headline], " ", shortened(row.break_, room).ljust(room), " ")
    for index, (diagnostic, letter) in enumerate(letters.items()):
        if index and index % 5 == 0:
            line.append(" ")
        match row.mark(diagnostic):
            case "sole":
                line.append(letter.upper(), "bold green")
            case "caught":
                line.append(letter, "green")
            case mark:
                line.append(SIGNS[mark] or " ", "dim")
    line.rstrip()
    return line


def _show_details(console: Console, row: BreakRow) -> None:
    for name, probes in row.caught_by.items():
        _item(
            console, Text(f"{name} with {some(probes, MOST_NAMES)}: {row.messages[name]}"), indent=4
        )
    for name, reason in row.declined.items():
        _item(console, Text(f"{name} declined: {shortened(reason, MOST_OF_A_REASON)}"), indent=4)
    if witness := row.witness:
        margin = (
            ""
            if witness.margin is None
            else f", {witness.margin:.0f} orders of magnitude above noise"
        )
        elements = counted(witness.elements, "element")
        least = f"{witness.probe} ({elements}) and {witness.diagnostic}{margin}"
        _item(console, Text(f"smallest that shows it: {least}", "cyan"), indent=4)


# ----- What follows --------------------------------------------------------------------------


def _show_diagnostics(console: Console, matrix: Matrix) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("diagnostic", style="bold", no_wrap=True)
    for heading in ("catches", "recall", "false alarms", "passes", "alone"):
        table.add_column(heading, justify="right")
    for row in matrix.diagnostics:
        if row.name in matrix.skipped:
            table.add_row(row.name, "skipped")
            continue
        recall = "" if row.recall is None else f"{row.recall:.0%}"
        alarms = Text(str(row.false_alarms), "bold red" if row.false_alarms else "")
        table.add_row(
            row.name, str(row.caught), recall, alarms, f"{row.passes:.0f}", str(len(row.sole) or "")
        )
    console.print(table)
    console.print(
        Text(
            "passes: forward passes over all probes on which it runs; a backward pass is two",
            "dim",
        )
    )
    console.print()


def _show_verdict(console: Console, matrix: Matrix) -> None:
    for problem in matrix.problems[:MOST_PROBLEMS]:
        _item(console, Text(problem, "bold red"), indent=0)
    if len(matrix.problems) > MOST_PROBLEMS:
        console.print(Text(f"and {len(matrix.problems) - MOST_PROBLEMS} more", "bold red"))
    if matrix.differences is None and not matrix.engine.foreign:
        console.print("No matrix is committed; `harness matrix --accept` commits this one.")
    if matrix.agrees:
        verdict = "As committed" if matrix.differences is not None else "No break survives"
        console.print(
            Text(f"{verdict}; no false alarm.", "green"), Text(f"{matrix.seconds:.1f} s", "dim")
        )


def _item(console: Console, text: Text, indent: int = 2) -> None:
    """Print an indented item, wrapped and without trailing blanks."""
    for line in text.wrap(console, console.width - indent):
        line.rstrip()
        console.print(Text(" " * indent).append_text(line), soft_wrap=True)


# ----- Markdown ------------------------------------------------------------------------------


def to_markdown(matrix: Matrix) -> str:
    """Return the whole matrix: problems first, then one table per family, then what follows."""
    return visible("\n".join(_lines(matrix)) + "\n")


def _lines(matrix: Matrix) -> Iterator[str]:
    engine = matrix.engine
    on = f"`{engine.name}`" + (f" with `{engine.variant}`" if engine.variant else "")
    caught = len(matrix.breaks) - len(matrix.lost)
    yield f"# Kill matrix of {on}"
    yield ""
    yield f"{caught} of {len(matrix.breaks)} breaks are caught by a diagnostic."
    yield from _section("Problems", [f"- {_text(p)}" for p in matrix.problems])
    lines = [f"- `{d.break_}` {d.sign} {_text(d.text)}" for d in matrix.differences or ()]
    yield from _section("Differences from the committed matrix", lines)
    reasons = [f"- `{name}`: {_text(reason)}" for name, reason in matrix.skipped.items()]
    yield from _section("Skipped", reasons)
    yield from _section("Not caught", [_lost(row) for row in matrix.lost])
    yield from _families(matrix)
    yield from _diagnostics(matrix)


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {heading}", "", *lines)


def _lost(row: BreakRow) -> str:
    pardon = f" Pardoned ({row.pardon.reason}): {row.pardon.sentence}" if row.pardon else ""
    return f"- `{row.break_}`, {row.fate}: {_text(row.why + pardon)}"


def _families(matrix: Matrix) -> Iterator[str]:
    ran = [row.name for row in matrix.ran]
    heads = ["break", "outcome", *ran, "smallest that shows it"]
    for family, rows in by_family(matrix.breaks):
        table = markdown_table(heads, (_row(row, ran) for row in rows))
        yield from _section(f"Family {family}", table)
    if matrix.breaks:
        yield from ("", str(LEGEND))


def _row(row: BreakRow, ran: Sequence[str]) -> list[str]:
    marks = [SIGNS[row.mark(name)] for name in ran]
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
        for row in matrix.ran
    )
    yield from _section("Diagnostics", markdown_table(heads, rows))


def _text(text: str) -> str:
    """Return the text on one line, with `<` escaped."""
    return " ".join(text.split()).replace("<", "&lt;")
