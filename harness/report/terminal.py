"""Reports, pages and listings on a terminal: 80 columns, and readable without colour."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.page import Page
from harness.probe import Probe
from harness.report import EngineReport, Report, RunReport, SiteReport
from harness.words import OUTCOMES, Outcome

WIDTH = 80
"""Wider terminals are not filled: lines of text are read more easily when they are short."""

STYLES: dict[Outcome, tuple[str, str]] = {
    "silent-corruption": ("≠", "bold magenta"),
    "crash": ("✗", "bold red"),
    "disguised-correct": ("=", "yellow"),
    "convention": ("~", "cyan"),
    "not-reached": ("·", "dim"),
    "does-not-apply": ("-", "dim"),
}
"""A sign and a style for each outcome: colour is never the only difference."""


def open_console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR, pipes and narrow terminals."""
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    console.width = min(console.width, WIDTH)
    return console


def outcome_text(outcome: Outcome) -> Text:
    """An outcome with its sign and style."""
    sign, style = STYLES[outcome]
    return Text(f"{sign} {outcome}", style)


def show_heading(console: Console, page: Page, engine: EngineReport) -> None:
    """Which break, on which engine."""
    console.print(Text.assemble((page.title, "bold"), f"\n{page.id}, on {_where(engine)}\n"))


def _where(engine: EngineReport) -> str:
    return engine.name + (f" with {engine.variant}" if engine.variant else "")


def show_section(console: Console, page: Page, heading: str) -> None:
    """One section of a page, if it has it."""
    from rich.markdown import Markdown  # slow to import, and only the interactive way needs it

    if text := page.section(heading):
        console.print(Text(heading, "bold"))
        console.print(Padding(Markdown(text), (0, 0, 1, 2)))


def show_diff(console: Console, diff: str, sites: Sequence[SiteReport]) -> None:
    """The change in the engine's own code, and where it is."""
    for place, group in groupby(sites, key=lambda site: (site.file, site.scope)):
        lines = ", ".join(dict.fromkeys(str(site.line) for site in group))
        console.print(f"{place[0]}, line {lines}, in {place[1] or 'the module'}:", style="dim")
    if console.is_terminal:
        from rich.syntax import Syntax  # slow to import, and pipes do without

        code = Syntax(diff.rstrip(), "diff", theme="ansi_dark", background_color="default")
        console.print(Padding(code, (0, 0, 1, 0)))
    else:
        console.print(diff, markup=False, soft_wrap=True)


def show_report(console: Console, report: Report, probes: Sequence[Probe]) -> None:
    """A table a probe, then what the page said."""
    docs = {probe.name: probe.doc.splitlines()[0] for probe in probes}
    for name, runs in groupby(report.runs, key=lambda run: run.probe):
        console.print(_probe_table(name, docs[name], list(runs)))
    _show_skipped(console, report)
    _show_verdict(console, report)


def _probe_table(name: str, doc: str, runs: list[RunReport]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=11, style="dim")
    table.add_column(ratio=1)
    for losses, run in _merge(runs):
        table.add_row(losses, _headline(run))
        table.add_row("", Text(run.evidence))
        if run.stage not in ("revealed", "not-reached"):
            table.add_row("", Text(f"{run.stage}: {run.why}", "italic"))
        if run.fingerprint:
            table.add_row("looks like", Text(run.fingerprint))
        if run.first_divergence and run.loss:  # in a log, the evidence says at which step
            table.add_row("first seen", Text(run.first_divergence))
        if run.caught_by:
            table.add_row("caught by", Text(", ".join(run.caught_by), "green"))
        if finite := [m for m in run.margins.values() if math.isfinite(m)]:
            over = f"{min(finite):.0f} to {max(finite):.0f}"
            table.add_row(
                "", Text(f"{over} orders of magnitude over the clean engine's noise", "dim")
            )
        if run.missed_by and run.outcome != "disguised-correct":
            table.add_row("missed by", Text(", ".join(run.missed_by), "red"))
        for diagnostic, message in run.wrong_reason.items():
            fired = f"{diagnostic} also fires on the clean engine: {message}"
            table.add_row("not a catch", Text(fired))
    return Group(Text(name, "bold"), Padding(Text(doc), (0, 0, 0, 2)), Padding(table, (0, 0, 1, 2)))


def _headline(run: RunReport) -> Text:
    text = outcome_text(run.outcome)
    if run.kind:
        text.append(f" ({run.kind})", "not bold")
    if run.better_than_correct:
        text.append("  better than correct", "bold yellow")
    if run.agrees is False:
        text.append(f"  the page says {run.expected}", "bold red reverse")
    return text


def _merge(runs: list[RunReport]) -> list[tuple[str, RunReport]]:
    """Losses that came to the same end share one entry; the last, weighted one speaks for them."""

    def end(run: RunReport) -> tuple[object, ...]:
        return run.outcome, run.kind, run.stage, run.caught_by, run.missed_by, run.agrees

    if len(runs) > 1 and all(end(run) == end(runs[0]) for run in runs):
        return [("both losses", runs[-1])]
    return [(run.loss or "", run) for run in runs]


def _show_skipped(console: Console, report: Report) -> None:
    """Diagnostics that were asked nowhere: for want of a library, or of anything to look at."""
    for name, reason in report.missing.items():
        console.print(Text(f"Not asked: {name}, since {reason}", "yellow"))
    asked = {name for run in report.runs for name in (*run.caught_by, *run.missed_by)}
    asked |= {name for run in report.runs for name in run.wrong_reason} | report.missing.keys()
    idle = dict.fromkeys(name for run in report.runs for name in run.skipped if name not in asked)
    if idle:
        console.print(Text(f"With nothing to look at here: {', '.join(idle)}", "dim"))
    if idle or report.missing:
        console.print()


def _show_verdict(console: Console, report: Report) -> None:
    counts = Counter(run.outcome for run in report.runs)
    console.print(Text("In short", "bold"))
    for outcome in OUTCOMES:
        if counts[outcome]:
            runs = "run" if counts[outcome] == 1 else "runs"
            console.print(
                Text("  ").append_text(outcome_text(outcome)), f"{counts[outcome]} {runs}"
            )
    for claim in report.claims:
        if claim.agrees is False:
            said = f"the page says {claim.claim.replace('_', ' ')} {claim.diagnostic}"
            console.print(Text(f"{said}: {claim.evidence}", "bold red"))
    if all(run.agrees is None for run in report.runs):
        console.print("The page states nothing about these probes.")
    elif report.agrees:
        console.print(Text("As the page says.", "green"), Text(f"{report.seconds:.2f} s", "dim"))
    else:
        console.print(Text("Not as the page says.", "bold red"))


def show_page(console: Console, page: Page) -> None:
    """A whole page, rendered."""
    from rich.markdown import Markdown  # slow to import

    console.print(
        Text(f"{page.id}  {page.front.kind}, {page.front.family}, level {page.front.level}", "dim")
    )
    console.print(Markdown(page.body))


def show_list(console: Console, pages: Sequence[Page]) -> None:
    """All pages, by kind and family."""
    for kind, group in groupby(pages, key=lambda page: page.front.kind):
        table = Table(box=None, pad_edge=False, title_justify="left")
        table.add_column(f"{kind}", style="bold", no_wrap=True)
        table.add_column("family", no_wrap=True)
        table.add_column("level", justify="right")
        table.add_column("what it does", ratio=1)
        for page in group:
            table.add_row(page.id, page.front.family, str(page.front.level), page.title)
        console.print(table, "")


def show_probes(console: Console, probes: Sequence[Probe]) -> None:
    """The shared probes, by the file that they stand in, and what each exercises."""
    for path, group in groupby(probes, key=lambda probe: probe.path):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        for probe in group:
            table.add_row(probe.name, probe.kind, probe.doc.splitlines()[0])
        console.print(Text(path, "dim"), soft_wrap=True)
        console.print(table, "")
