"""A diagnosis on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.doctor import Application, Diagnosis
from harness.fitness import Fit
from harness.report.terminal import Screen

MANY = 6
"""Names that are listed before the rest is counted."""


def show_diagnosis(console: Screen, found: Diagnosis) -> None:
    """Everything, in the order in which one would ask."""
    console.print(Text.assemble((found.engine, "bold"), f", {_count(found.files, 'file')}\n"))
    _show_speech(console, found)
    for title, lines in (
        ("Storage", found.storage),
        ("How gradients are added up", found.accumulation),
        ("Un-broadcasting", found.unbroadcasting),
    ):
        if lines:
            _show_lines(console, title, lines)
    _show_probes(console, found.probes)
    _show_bugs(console, found.bugs)
    _show_breaks(console, found.breaks)
    console.print(Text("harness.toml", "bold"), "to keep, and to correct:\n")
    console.print(Padding(Text(found.settings), (0, 0, 0, 2)), soft_wrap=True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _show_lines(console: Screen, title: str, lines: Iterable[str]) -> None:
    console.print(Text(title, "bold"))
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    console.print()


def _grid() -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    return table


def _show_speech(console: Screen, found: Diagnosis) -> None:
    console.print(Text("How it is spoken to", "bold"))
    table = _grid()
    for what, said in found.speech.items():
        table.add_row(what, Text(said))
    console.print(Padding(table, (0, 0, 1, 2)))


def _show_probes(console: Screen, fits: list[Fit]) -> None:
    usable = sum(each.verdict == "fits" for each in fits)
    console.print(Text("Probes", "bold"))
    said = f"{usable} of {len(fits)} shared probes come out right on it, and can judge a break."
    console.print(Padding(Text(said), (0, 0, 0, 2)))
    for verdict, title in (("lacks", "lacking"), ("differs", "other meaning")):
        by_reason: dict[str, list[str]] = {}
        for each in fits:
            if each.verdict == verdict:
                by_reason.setdefault(each.said, []).append(each.probe)
        table = _grid()
        for reason, probes in sorted(by_reason.items(), key=lambda pair: -len(pair[1])):
            table.add_row(f"{title}:", Text.assemble(reason, (f"  {_listed(probes)}", "dim")))
        if by_reason:
            console.print(Padding(table, (0, 0, 0, 2)))
    console.print()


def _listed(names: list[str]) -> str:
    rest = len(names) - MANY
    return ", ".join(names[:MANY]) + (f" and {rest} more" if rest > 0 else "")


def _show_bugs(console: Screen, bugs: list[Fit]) -> None:
    if not bugs:
        console.print(Text("No bug was met in it as it is.\n", "green"))
        return
    console.print(Text("What looks wrong in it as it is", "bold"))
    table = _grid()
    for each in bugs:
        table.add_row(each.probe, Text.assemble((f"{each.kind}: ", "magenta"), each.said))
    console.print(Padding(table, (0, 0, 1, 2)))


def _show_breaks(console: Screen, breaks: list[Application]) -> None:
    tried = [each for each in breaks if each.sites and each.probes]
    console.print(Text("Breaks", "bold"))
    said = f"{len(tried)} of {len(breaks)} can be tried: harness break ID --engine ..."
    console.print(Padding(Text(said), (0, 0, 0, 2)))
    table = _grid()
    for each in tried:
        table.add_row(each.break_, f"{_places(each)}; {_count(len(each.probes), 'probe')}")
    console.print(Padding(table, (0, 0, 1, 2)))
    mute = [each for each in breaks if each.sites and not each.probes]
    if mute:
        console.print(Padding(Text("They apply, but nothing can judge them:"), (0, 0, 0, 2)))
        table = _grid()
        for each in mute:
            table.add_row(each.break_, Text(f"{_places(each)}; {each.reason}"))
        console.print(Padding(table, (0, 0, 1, 2)))
    absent = sorted((each for each in breaks if not each.sites), key=lambda each: each.reason)
    if absent:
        console.print(Padding(Text("They have no site in it:"), (0, 0, 0, 2)))
        table = _grid()
        for reason, group in groupby(absent, key=lambda each: each.reason):
            table.add_row("", Text.assemble((reason, "dim"), f"  {_listed([e.break_ for e in group])}"))
        console.print(Padding(table, (0, 0, 1, 2)))


def _places(each: Application) -> str:
    """The sites by scope, with their lines."""
    places = []
    for (file, scope), group in groupby(each.sites, key=lambda site: (site.file, site.scope)):
        lines = ", ".join(dict.fromkeys(str(site.line) for site in group))
        places.append(f"{scope or 'the module'} ({file}:{lines})")
    shown = "; ".join(places[:3])
    return shown + (f" and {len(places) - 3} more" if len(places) > 3 else "")
