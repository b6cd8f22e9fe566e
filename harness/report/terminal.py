"""Reports, pages and listings on a terminal: 80 columns, and readable without colour."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness.core.message import Message
from harness.core.report import EngineReport, Report, RunReport, SiteReport
from harness.core.vocabulary import OUTCOMES, Outcome, shortened, visible
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.sandbox.signals import broken_pipe

if TYPE_CHECKING:
    from harness.training.record import TrainingReport

WIDTH = 80
"""The largest width that is used: short lines are easier to read."""

MOST_OF_A_REASON = 60
"""The number of characters to show of the reason why a diagnostic declined."""

STYLES: dict[Outcome, tuple[str, str]] = {
    "silent-corruption": ("≠", "bold magenta"),
    "crash": ("✗", "bold red"),
    "disguised-correct": ("=", "yellow"),
    "convention": ("~", "cyan"),
    "not-reached": ("·", "dim"),
    "misplaced": ("?", "bold red"),
    "does-not-apply": ("-", "dim"),
}
"""The sign and the style of each outcome; colour is never the only difference."""


class Screen(Console):
    """A console in the reader's language, on which no text can control the terminal."""

    say: Language = ENGLISH

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of a renderable, with escapes for invisible characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def on_broken_pipe(self) -> None:
        """End the command if the reader of its output has ended."""
        raise broken_pipe()


def open_console(language: Language = ENGLISH, file: TextIO | None = None) -> Screen:
    """Return a console that respects NO_COLOR, pipes and narrow terminals.

    `file` is standard output by default. Markup in strings is not interpreted.
    """
    console = Screen(
        file=file or sys.stdout, highlight=False, soft_wrap=False, markup=False, emoji=False
    )
    console.width = min(console.width or WIDTH, WIDTH)
    console.say = language
    return console


def outcome_text(outcome: Outcome, say: Language = ENGLISH) -> Text:
    """Return an outcome with its sign and style."""
    sign, style = STYLES[outcome]
    return Text(f"{sign} {say(outcome)}", style)


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 page`, `2 pages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_heading(console: Screen, page: Page, engine: EngineReport) -> None:
    """Print the title of a page, and the engine."""
    console.print(Text(page.title, "bold"))
    show_place(console, page, engine)


def show_place(console: Screen, page: Page, engine: EngineReport) -> None:
    """Print which page is put into which engine."""
    say = console.say
    where = engine.name
    if engine.variant:
        where = say("{engine} with {variant}", engine=engine.name, variant=engine.variant)
    line = say("{page}, on {engine}", page=page.id, engine=where)
    console.print(Text(f"{line}\n"))


def show_first_words(console: Screen, page: Page) -> None:
    """Print what is known before anything is computed: title, hypothesis and the page's change."""
    console.print(Text.assemble((page.title, "bold"), "\n"))
    show_first_section(console, page)
    if changes := page.diffs("minigrad"):
        _show_code(console, "\n".join(change.text.rstrip() for change in changes))


def show_first_section(console: Console, page: Page) -> None:
    """Print the first section of a page, in any language."""
    if heading := next(iter(page.headings), None):
        show_section(console, heading, page.section(heading))


def show_section(console: Console, heading: str, markdown: str) -> None:
    """Print a section: its heading, and its Markdown indented."""
    from rich.markdown import Markdown  # slow to import, and not needed by most commands

    console.print(Text(heading, "bold"))
    console.print(Padding(Markdown(markdown), (0, 0, 1, 2)))


def show_diff(console: Screen, diff: str, sites: Sequence[SiteReport]) -> None:
    """Print the change in the engine's code, and where it is."""
    for file, scope, lines in places(sites):
        where = scope or console.say("the module")
        line = console.say("{file}, line {lines}, in {scope}:", file=file, lines=lines, scope=where)
        console.print(Text(line, "dim"))
    _show_code(console, diff)


def _show_code(console: Console, diff: str) -> None:
    if console.is_terminal:
        from rich.syntax import Syntax  # slow to import, and not needed for pipes

        code = Syntax(diff.rstrip(), "diff", theme="ansi_dark", background_color="default")
        console.print(Padding(code, (0, 0, 1, 0)))
    else:
        console.print(diff, soft_wrap=True)


def places(sites: Sequence[SiteReport]) -> Iterator[tuple[str, str, str]]:
    """Yield the sites by file and scope, each with its lines; the scope of a module is empty."""
    for (file, scope), group in groupby(sites, key=lambda site: (site.file, site.scope)):
        yield file, scope, ", ".join(dict.fromkeys(str(site.line) for site in group))


def show_report(console: Screen, report: Report, probes: Sequence[Probe]) -> None:
    """Print a table for each probe, then how the runs compare with the page."""
    show_runs(console, report.runs, probes)
    _show_left_out(console, report)
    _show_skipped(console, report)
    if not report.engine.foreign:
        show_advice(console, report)
    _show_verdict(console, report)


def show_advice(console: Screen, report: Report | TrainingReport) -> None:
    """Print what the page says in the report, which is about our own engine."""
    say = console.say
    rows = {
        say("Why"): say(report.why),
        say("Beware"): say(report.beware),
        say("Write"): report.invariant,
    }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for label, text in rows.items():
        if text:
            table.add_row(Text(label, "bold"), Text(text))
    if table.row_count:
        console.print(Padding(table, (0, 0, 1, 0)))


def show_runs(console: Screen, runs: Sequence[RunReport], probes: Sequence[Probe]) -> None:
    """Print a table for each probe."""
    docs = {probe.name: probe.doc.splitlines()[0] for probe in probes}
    for name, group in groupby(runs, key=lambda run: run.probe):
        console.print(_probe_table(name, docs[name], list(group), console.say))


def _probe_table(name: str, doc: str, runs: list[RunReport], say: Language) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=11, style="dim")
    table.add_column(ratio=1)
    for losses, run in _merge(runs, say):
        table.add_row(losses, _headline(run, say))
        for label, text in _rows(run, say):
            table.add_row(label, text)
    head = Text(name, "bold"), Padding(Text(say(doc)), (0, 0, 0, 2))
    return Group(*head, Padding(table, (0, 0, 1, 2)))


def _rows(run: RunReport, say: Language) -> Iterator[tuple[str, Text]]:
    """Yield the rows of a run below its headline, each with its label."""
    yield "", Text(say(run.evidence))
    if run.stage and run.stage not in ("revealed", "not-reached"):
        yield "", Text(f"{say(run.stage)}: {say(run.why)}", "italic")
    if run.fingerprint:
        yield say("looks like"), Text(say(run.fingerprint))
    if run.first_divergence and run.loss:  # in a log, the evidence says at which step
        yield say("first seen"), Text(say(run.first_divergence))
    if run.caught_by:
        yield say("caught by"), Text(", ".join(run.caught_by), "green")
    if finite := [f"{margin:.0f}" for margin in sorted(run.margins.values()) if margin < math.inf]:
        span = "-".join(dict.fromkeys((finite[0], finite[-1])))
        over = say("{span} orders of magnitude above the clean engine's rounding error", span=span)
        yield "", Text(over, "dim")
    if run.outcome not in ("disguised-correct", "not-reached"):
        if run.missed_by:
            yield say("missed by"), Text(", ".join(run.missed_by), "red")
        if run.declined:
            yield say("declined"), Text(_declined(run.declined, say), "yellow")
    if run.outcome == "not-reached":
        return
    for diagnostic, alarm in run.wrong_reason.items():
        also = say(
            "{diagnostic} also raises an alarm on the clean engine: {alarm}",
            diagnostic=diagnostic,
            alarm=alarm,
        )
        yield say("not a catch"), Text(also)


def _declined(reasons: Mapping[str, Message], say: Language) -> str:
    """Return each diagnostic that declined, with its shortened reason in parentheses."""
    return ", ".join(
        f"{name} ({shortened(say(reason), MOST_OF_A_REASON)})" for name, reason in reasons.items()
    )


def _headline(run: RunReport, say: Language) -> Text:
    text = outcome_text(run.outcome, say)
    if run.kind:
        text.append(f" ({say(run.kind)})", "not bold")
    if run.better_than_correct:
        text.append(f"  {say('better than correct')}", "bold yellow")
    if run.agrees is False:
        style = "bold red reverse"
        expected = say("the page says {outcome}", outcome=say(run.expected or ""))
        text.append(f"  {expected}", style)
    elif run.agrees is None:
        text.append(f"  {say('not stated')}", "not bold dim")
    return text


def _merge(runs: list[RunReport], say: Language) -> list[tuple[str, RunReport]]:
    """Return the runs by loss; losses with the same result share one entry, with the last run."""

    def end(run: RunReport) -> tuple[object, ...]:
        verdicts = run.caught_by, run.missed_by, list(run.declined)
        return run.outcome, run.kind, run.stage, verdicts, run.agrees

    if len(runs) > 1 and all(end(run) == end(runs[0]) for run in runs):
        return [(say("both losses"), runs[-1])]
    return [(say(run.loss or ""), run) for run in runs]


def _show_left_out(console: Screen, report: Report) -> None:
    """Print the probes that cannot be used to judge the engine, by reason."""
    say, by_reason = console.say, dict[Message, list[str]]()
    for probe, reason in report.left_out.items():
        by_reason.setdefault(reason, []).append(probe)
    for reason, probes in by_reason.items():
        line = say("Left out: {probes}, because {reason}", probes=", ".join(probes), reason=reason)
        console.print(Text(line, "dim"))
    if by_reason:
        console.print()


def _show_skipped(console: Screen, report: Report) -> None:
    """Print the diagnostics that checked no run, because of a missing library or an unfit probe."""
    say = console.say
    for name, reason in report.missing.items():
        line = say("Skipped: {diagnostic}, because {reason}", diagnostic=name, reason=reason)
        console.print(Text(line, "yellow"))
    ran = {name for run in report.runs for name in (*run.caught_by, *run.missed_by)}
    ran |= {name for run in report.runs for name in (*run.wrong_reason, *run.declined)}
    ran |= report.missing.keys()
    idle = dict.fromkeys(name for run in report.runs for name in run.skipped if name not in ran)
    if idle:
        line = say("Not applicable here: {diagnostics}", diagnostics=", ".join(idle))
        console.print(Text(line, "dim"))
    if idle or report.missing:
        console.print()


def show_resemblance(console: Screen, report: Report) -> None:
    """Print the probes on which the unbroken engine already behaves like the break."""
    probes = ", ".join(f"`{probe}`" for probe in report.resembles)
    line = console.say(
        "Your engine already behaves like this break on {probes}: it gives the same wrong results "
        "without it.",
        probes=probes,
    )
    console.print(Text(line, "bold red"))


def _show_verdict(console: Screen, report: Report) -> None:
    say = console.say
    counts = Counter(run.outcome for run in report.runs)
    console.print(Text(say("Summary"), "bold"))
    for outcome in OUTCOMES:
        if counts[outcome]:
            count = counts[outcome]
            runs = say("{count} run", count=1) if count == 1 else say("{count} runs", count=count)
            console.print(Text("  ").append_text(outcome_text(outcome, say)), runs)
    for claim in report.claims:
        if claim.agrees is False:
            verb = say("caught by") if claim.claim == "caught_by" else say("missed by")
            line = say(
                "the page says {claim} {diagnostic}: {evidence}",
                claim=verb,
                diagnostic=claim.diagnostic,
                evidence=claim.evidence,
            )
            console.print(Text(line, "bold red"))
    if report.resembles:
        show_resemblance(console, report)
    if report.misplaced:
        console.print(Text(say(report.misplaced), "bold red"))
    elif report.engine.foreign:
        console.print(_comparison(report, say))
        if report.partial:
            line = say("The patch applies only in part: {reason}.", reason=report.partial)
            console.print(Text(line, "yellow"))
    elif report.left_out and not report.runs:
        console.print(say("No probe can be judged."))
    elif not report.runs:
        console.print(
            say("Nothing was run: the page names no probe. Choose one with --probe NAME.")
        )
    elif all(run.agrees is None for run in report.runs):
        console.print(say("The page states nothing about these probes."))
    elif report.agrees:
        console.print(
            Text(say("Everything is as the page says."), "green"),
            Text(f"{report.seconds:.2f} s", "dim"),
        )
    elif False in [
        *(run.agrees for run in report.runs),
        *(claim.agrees for claim in report.claims),
    ]:
        console.print(Text(say("Some results are not as the page says."), "bold red"))
    else:
        line = say(
            "{same} of {count} runs are as the page says; not stated: {probes}.",
            same=report.agreement[0],
            count=len(report.runs),
            probes=", ".join(report.unstated),
        )
        console.print(Text(line, "yellow"))


def _comparison(report: Report, say: Language) -> Text:
    """Return how a foreign engine's outcomes compare with those that the page states."""
    same, stated = report.agreement
    if not report.runs:
        line = say("Nothing was judged: no probe of this page can run on this engine.")
        return Text(line, "bold red")
    if not report.judged:
        return Text(say("Nothing was judged: no probe runs the changed code."), "bold red")
    if not stated:
        return Text(say("The page states nothing about these probes."))
    how = say("in place") if report.engine.like else say("out of place")
    line = say(
        "{same} of {stated} runs end as the page says for engines that accumulate gradients {how}.",
        same=same,
        stated=stated,
        how=how,
    )
    return Text(line, "green" if same == stated else "yellow")


def show_page(console: Screen, page: Page, *, translated: bool = False) -> None:
    """Print a whole page; if the language is not English, say if it is not translated."""
    from rich.markdown import Markdown  # slow to import

    say, front = console.say, page.front
    about = say(
        "{page}  {kind}, {family}, level {level}",
        page=page.id,
        kind=say(front.kind),
        family=front.family,
        level=front.level,
    )
    console.print(Text(about, "dim"))
    if say.code != ENGLISH.code and not translated:
        console.print(Text(say("This page is not translated."), "dim"))
    console.print(Markdown(page.body))
