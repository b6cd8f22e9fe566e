"""A diagnosis in at most 15 lines at 80 columns: what matters, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.doctor.defects import Defect
from harness.doctor.diagnosis import Diagnosis
from harness.report.doctor_facts import accumulation, root_of
from harness.report.terminal import Screen, counted

MOST_LINES = 15
"""The number of lines, if the console has 80 columns."""


def show_summary(console: Screen, diagnosis: Diagnosis, argument: str | None) -> None:
    """Print the summary; `argument` is what the user called the engine, None for harness.toml."""
    head, tail = list(_head(diagnosis)), list(_tail(diagnosis, argument))
    room = MOST_LINES - sum(_height(console, row) for row in (*head, *tail))
    for row in (*head, *_fitting(console, diagnosis.defects, room), *tail):
        console.print(row, soft_wrap=isinstance(row, Text))


def heading_of(defect: Defect) -> Text:
    """Return what looks wrong, where, and which break behaves alike."""
    place = f" ({defect.site.file}:{defect.site.line})" if defect.site else ""
    alike = " or ".join(f"`{item.break_}`" for item in defect.alike)
    return Text.assemble(
        (root_of(defect), "bold"),
        place,
        f" behaves like {alike}" if alike else "",
    )


def witness_of(defect: Defect) -> Text:
    """Return the most basic probe that shows a defect, with its numbers or its failure."""
    others = f" (and {len(defect.probes)} more)" if defect.probes else ""
    return Text.assemble(
        (f"{defect.probe}{others}: ", "dim"),
        (f"{defect.kind}: ", "magenta"),
        str(defect.evidence),
    )


# ----- The rows -----


def _head(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield Text.assemble((diagnosis.engine, "bold"), f", {counted(diagnosis.files, 'file')}")
    interface = diagnosis.interface
    calls = [interface[name] for name in ("leaf", "grad", "backward", "pull") if name in interface]
    yield _row("Calls", "; ".join(calls))
    yield _row("Gradients", "; ".join(islice(accumulation(diagnosis), 2)))
    if diagnosis.defects:
        order = ", the most basic first" if len(diagnosis.defects) > 1 else ""
        count = Text(counted(len(diagnosis.defects), "finding"), "bold red")
        yield _row("Looks wrong", count + order)
    elif diagnosis.judged:
        yield _row("Looks wrong", Text("nothing", "green"))
    else:
        yield Text("Nothing was judged.", "bold red")


def _tail(diagnosis: Diagnosis, argument: str | None) -> Iterator[RenderableType]:
    right = sum(item.verdict == "fits" for item in diagnosis.probes)
    breaks, probes = len(diagnosis.breaks), len(diagnosis.probes)
    yield _row(
        "Breaks",
        f"{len(diagnosis.usable)} of {breaks} can be tried; {right} of {probes} probes judge them"
        if right
        else f"none can be tried: none of {probes} probes gives the right result",
    )
    name = "" if argument is None else f" {shlex.quote(argument)}"
    option = name and f" --engine{name}"
    alike = next((item.break_ for defect in diagnosis.defects for item in defect.alike), None)
    if alike:
        yield _command("Next", f"harness show {alike}")
    elif diagnosis.usable:
        yield _command("Next", f"harness break {diagnosis.usable[0].break_}{option}")
    yield _command("More", f"harness doctor{name} --all")


_COLUMN = 12
"""The width of the labels."""


def _row(label: str, text: str | Text) -> RenderableType:
    table = Table.grid()
    table.add_column(style="bold", width=_COLUMN)
    table.add_column(overflow="fold")
    table.add_row(label, text if isinstance(text, Text) else Text(text))
    return table


def _command(label: str, command: str) -> Text:
    """Return a row that is printed on one line, however long, so that it can be copied."""
    return Text.assemble((label.ljust(_COLUMN), "bold"), command)


def _height(console: Screen, row: RenderableType) -> int:
    return len(console.render_lines(row, console.options, pad=False))


def _fitting(console: Screen, defects: Sequence[Defect], room: int) -> Iterator[RenderableType]:
    """Yield as many of the defects as there is room for, at least one, and how many are left."""
    for position, defect in enumerate(defects):
        rows = [
            Padding(heading_of(defect), (0, 0, 0, 2)),
            Padding(_on_one_line(console, witness_of(defect)), (0, 0, 0, 4)),
        ]
        room -= sum(_height(console, row) for row in rows)
        is_last = position + 1 == len(defects)
        if position and room < (not is_last):
            yield Padding(Text(f"and {len(defects) - position} more: see --all"), (0, 0, 0, 2))
            return
        yield from rows


def _on_one_line(console: Screen, text: Text) -> Text:
    text.truncate(console.width - 4, overflow="ellipsis")
    return text
