"""A diagnosis on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.doctor.diagnosis import Application, Diagnosis
from harness.engines.adapter.unsupported import LIBRARY_SPECIFIC
from harness.experiment.conformance import Fit
from harness.patch import ABSENT
from harness.report.terminal import Screen

_NO_WORD = re.compile(r"the engine has no `(\w+)`")

LONGEST = 140
"""Characters of a reason."""


def show_diagnosis(console: Screen, found: Diagnosis) -> None:
    """Everything, in the order in which one would ask."""
    console.print(Text.assemble((found.engine, "bold"), f", {_count(found.files, 'file')}\n"))
    console.print(Text("How it is spoken to", "bold"))
    _show_table(console, found.speech.items())
    for title, lines in (
        ("Storage", found.storage),
        ("How gradients are added up", found.accumulation),
        ("Un-broadcasting", found.unbroadcasting),
    ):
        if lines:
            console.print(Text(title, "bold"))
            for line in lines:
                _say(console, line)
            console.print()
    _show_probes(console, found.probes)
    _show_bugs(console, found.bugs)
    _show_breaks(console, found.breaks)
    console.print(Text("harness.toml", "bold"), "to keep, and to correct:\n")
    for line in found.settings.splitlines():
        console.print(Text(f"  {line}" if line else ""), soft_wrap=True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(console: Screen, said: str | Text, indent: int = 2) -> None:
    console.print(Padding(said if isinstance(said, Text) else Text(said), (0, 0, 0, indent)))


def _show_table(console: Screen, rows: Iterable[tuple[str, str | Text]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(style="dim", max_width=28)
    table.add_column(ratio=1)
    for name, said in rows:
        table.add_row(name, said if isinstance(said, Text) else Text(said))
    console.print(Padding(table, (0, 0, 1, 2)))


def _show_reasons(console: Screen, title: str, pairs: list[tuple[str, str]]) -> None:
    """Names by the reason that they share, the largest group first."""
    by_reason: dict[str, list[str]] = {}
    for reason, name in pairs:
        by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return
    _say(console, title)
    for reason, names in sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        bounded = reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
        _say(console, Text.assemble(bounded, (f": {', '.join(names)}", "dim")), 4)


def _show_probes(console: Screen, fits: list[Fit]) -> None:
    usable = sum(each.verdict == "fits" for each in fits)
    console.print(Text("Probes", "bold"))
    _say(console, f"{usable} of {len(fits)} shared probes come out right, and can judge a break.")
    lacking = [(str(each.said), each.probe) for each in fits if each.verdict == "lacks"]
    apart = [pair for pair in lacking if not pair[0].startswith(LIBRARY_SPECIFIC)]
    if own := len(lacking) - len(apart):
        _say(console, f"{own} ask for layers, optimizers, data or a tape, which are no part of it.")
    absent: dict[str, int] = {}
    for reason, _ in apart:
        if found := _NO_WORD.match(reason):
            absent[found[1]] = absent.get(found[1], 0) + 1
    if absent:
        said = (
            f"{sum(absent.values())} ask for what it has no word for: {', '.join(sorted(absent))}."
        )
        _say(console, said)
    apart = [pair for pair in apart if not _NO_WORD.match(pair[0])]
    _show_reasons(console, "It lacks what these ask for:", apart)
    differing = [(str(each.said), each.probe) for each in fits if each.verdict == "differs"]
    _show_reasons(console, "These mean or round something otherwise:", differing)
    console.print()


def _show_bugs(console: Screen, bugs: list[Fit]) -> None:
    if not bugs:
        console.print(Text("No bug was met in it as it is.\n", "green"))
        return
    console.print(Text("What looks wrong in it as it is", "bold"))
    rows = [
        (each.probe, Text.assemble((f"{each.kind}: ", "magenta"), str(each.said))) for each in bugs
    ]
    _show_table(console, rows)


def _show_breaks(console: Screen, breaks: list[Application]) -> None:
    tried = [each for each in breaks if each.sites and each.probes]
    mute = [each for each in breaks if each.sites and not each.probes]
    absent = [each for each in breaks if not each.sites]
    console.print(Text("Breaks", "bold"))
    _say(console, f"{len(tried)} of {len(breaks)} can be tried: harness break ID --engine ...")
    _show_table(
        console,
        [(e.break_, f"{_places(e)}; {_count(len(e.probes), 'probe')}") for e in tried],
    )
    if mute:
        _say(console, f"{len(mute)} have a site, but no probe that could judge them:")
        _show_table(console, [(each.break_, f"{_places(each)}; {each.reason}") for each in mute])
    missing = [each.break_ for each in absent if ABSENT in each.reason]
    if missing:
        said = f"{len(missing)} are about code that it does not have:"
        _say(console, Text.assemble(said, (f" {', '.join(missing)}", "dim")))
    written = [(each.reason, each.break_) for each in absent if ABSENT not in each.reason]
    _show_reasons(console, f"{len(written)} are about code that it writes otherwise:", written)
    console.print()


def _places(each: Application) -> str:
    """The sites by scope, with their lines."""
    places = []
    for (file, scope), group in groupby(each.sites, key=lambda site: (site.file, site.scope)):
        lines = ", ".join(dict.fromkeys(str(site.line) for site in group))
        places.append(f"{scope or 'the module'} ({file}:{lines})")
    shown = "; ".join(places[:3])
    return shown + (f" and {len(places) - 3} more" if len(places) > 3 else "")
