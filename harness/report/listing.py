"""Lists on a terminal: the pages, the track, and the probes that pages share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.vocabulary import PageKind
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import Language
from harness.report.terminal import Screen

PLURALS: Mapping[PageKind, str] = {
    "break": "{count} breaks",
    "variant": "{count} variants",
    "myth": "{count} myths",
    "exercise": "{count} exercises",
    "control": "{count} controls",
}
"""The number of pages of a kind, if there are several."""


def show_list(console: Screen, pages: Sequence[Page]) -> None:
    """Print all pages by kind and family, and their numbers."""
    say = console.say
    for kind, group in groupby(pages, key=lambda page: page.front.kind):
        table = Table(box=None, pad_edge=False, title_justify="left")
        table.add_column(say(kind), style="bold", no_wrap=True)
        table.add_column(say("family"), no_wrap=True)
        table.add_column(say("level"), justify="right")
        table.add_column(say("what it does"), ratio=1)
        for page in group:
            table.add_row(page.id, page.front.family, str(page.front.level), page.title)
        console.print(table, "")
    for line in _totals(pages, say):
        console.print(Text(line, "dim"))


def _totals(pages: Sequence[Page], say: Language) -> Iterator[str]:
    kinds = Counter(page.front.kind for page in pages)
    yield ", ".join(_counted(count, kind, say) for kind, count in kinds.items())
    families = Counter(page.front.family for page in pages if page.front.kind == "break")
    if families:
        listed = ", ".join(f"{family} {n}" for family, n in sorted(families.items()))
        yield say("breaks: {families}", families=listed)


def _counted(count: int, kind: PageKind, say: Language) -> str:
    return f"1 {say(kind)}" if count == 1 else say(PLURALS[kind], count=count)


def show_track(console: Screen, pages: Sequence[Page], ideas: Mapping[str, str]) -> None:
    """Print the pages of the track in order, each with its idea."""
    say = console.say
    for number, page in enumerate(pages, start=1):
        console.print(Text.assemble(f"{number:2} ", (page.id, "bold")))
        console.print(Padding(Text(say(ideas[page.id])), (0, 0, 0, 3)))
    if pages:
        start = say("Start with: {command}", command=f"harness break {pages[0].id}")
        console.print(Text(f"\n{start}", "dim"))


def show_probes(console: Screen, probes: Sequence[Probe]) -> None:
    """Print the shared probes by file, and what each exercises."""
    for path, group in groupby(probes, key=lambda probe: probe.path):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        for probe in group:
            table.add_row(probe.name, probe.kind, console.say(probe.doc.splitlines()[0]))
        console.print(Text(path, "dim"), soft_wrap=True)
        console.print(table, "")
