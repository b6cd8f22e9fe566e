"""Lists on a terminal: the pages, the track, and the probes that pages share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.vocabulary import PageKind, shortened
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

DONE = "✓"
"""Marks what the learner has done."""


def show_list(console: Screen, pages: Sequence[Page], done: Collection[str] = ()) -> None:
    """Print pages by kind and family, one row each, with their counts.

    On a terminal, a row is not longer than the window.
    """
    say = console.say
    for (kind, family), group in groupby(pages, key=_group):
        console.print(Text(f"{say(kind)}, {family}" if family else say(kind), "bold"))
        _show_rows(console, list(group), done)
    for line in _totals(pages, say):
        console.print(Text(line))
    if count := sum(page.id in done for page in pages):
        line = console.say(
            "{mark} done: {count} of {total}", mark=DONE, count=count, total=len(pages)
        )
        console.print(Text(line))


def _group(page: Page) -> tuple[PageKind, str]:
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


def _totals(pages: Sequence[Page], say: Language) -> Iterator[str]:
    kinds = Counter(page.front.kind for page in pages)
    yield ", ".join(_counted(count, kind, say) for kind, count in kinds.items())
    families = Counter(page.front.family for page in pages if page.front.kind == "break")
    if len(families) > 1:
        listed = ", ".join(f"{family} {n}" for family, n in sorted(families.items()))
        yield say("breaks: {families}", families=listed)


def _counted(count: int, kind: PageKind, say: Language) -> str:
    return f"1 {say(kind)}" if count == 1 else say(PLURALS[kind], count=count)


def show_track(
    console: Screen, pages: Sequence[Page], ideas: Mapping[str, str], done: Collection[str] = ()
) -> None:
    """Print the pages of the track in order, each with its idea."""
    for number, page in enumerate(pages, start=1):
        mark = DONE if page.id in done else " "
        console.print(Text.assemble(f"{mark} {number:2} ", (page.id, "bold")))
        console.print(Padding(Text(console.say(ideas[page.id])), (0, 0, 0, 5)))
    if pages:
        start = console.say("Start or continue with: {command}", command="harness start")
        console.print(Text(f"\n{start}"))


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
