"""Lists on a terminal: pages, the track, and the shared probes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.vocabulary import shortened
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.terminal import Screen, counted

DONE = "✓"
"""Marks what the learner has done."""


def show_list(console: Screen, pages: Sequence[Page], done: Collection[str] = ()) -> None:
    """Print pages by kind and family, a row each, and their numbers.

    On a terminal, a row is not longer than the window.
    """
    for (kind, family), group in groupby(pages, key=lambda page: _group(page)):
        console.print(Text(f"{kind}, {family}" if family else kind, "bold"))
        _show_rows(console, list(group), done)
    for line in _totals(pages):
        console.print(Text(line))
    if count := sum(page.id in done for page in pages):
        line = console.say(
            "{mark} done: {count} of {total}", mark=DONE, count=count, total=len(pages)
        )
        console.print(Text(line))


def _group(page: Page) -> tuple[str, str]:
    """Return the kind and the family; no family if the kind has only one."""
    kind, family = page.front.kind, page.front.family
    return kind, "" if family == f"{kind}s" else family


def _show_rows(console: Screen, pages: Sequence[Page], done: Collection[str]) -> None:
    width = max(len(page.id) for page in pages)
    for page in pages:
        mark = DONE if page.id in done else " "
        start = f"{mark} {page.id:{width}}  {page.front.level}  "
        room = console.size.width - len(start)
        title = shortened(page.title, max(room, 1)) if console.is_terminal else page.title
        console.print(Text(start + title), soft_wrap=True)
    console.print()


def _totals(pages: Sequence[Page]) -> Iterator[str]:
    kinds = Counter(page.front.kind for page in pages)
    yield ", ".join(counted(count, kind) for kind, count in kinds.items())
    families = Counter(page.front.family for page in pages if page.front.kind == "break")
    if len(families) > 1:
        yield "breaks: " + ", ".join(f"{family} {n}" for family, n in sorted(families.items()))


def show_track(
    console: Screen, pages: Sequence[Page], ideas: Mapping[str, str], done: Collection[str] = ()
) -> None:
    """Print the pages of the track in order, each with its idea."""
    for number, page in enumerate(pages, start=1):
        mark = DONE if page.id in done else " "
        console.print(Text.assemble(f"{mark} {number:2} ", (page.id, "bold")))
        console.print(Padding(Text(ideas[page.id]), (0, 0, 0, 5)))
    if pages:
        console.print(Text(f"\n{console.say('Begin or go on with: harness start')}"))


def show_probes(console: Console, probes: Sequence[Probe]) -> None:
    """Print the shared probes by file, and what each exercises."""
    for path, group in groupby(probes, key=lambda probe: probe.path):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        for probe in group:
            table.add_row(probe.name, probe.kind, probe.doc.splitlines()[0])
        console.print(Text(path, "dim"), soft_wrap=True)
        console.print(table, "")
