"""The whole report on a break, probe by probe: `harness break --full`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.message import Message
from harness.core.report import Report, RunReport
from harness.core.vocabulary import OUTCOMES, shortened
from harness.pages.probe import Probe
from harness.report.language import Language
from harness.report.pictures import curves, graph_list, heat_map
from harness.report.terminal import (
    MOST_OF_A_REASON,
    Screen,
    left_out_by_reason,
    outcome_text,
    show_advice,
    show_problems,
)


def show_full(console: Screen, report: Report, probes: Sequence[Probe]) -> None:
    """Print a table for each probe, then how the runs compare with the page."""
    say = console.say
    show_runs(console, report.runs, probes)
    _show_left_out(console, report)
    _show_skipped(console, report)
    show_advice(console, report)
    _show_summary(console, report)
    show_problems(console, report)
    if report.agrees and report.runs and not report.engine.foreign:
        console.print(say("Everything is as the page says."), f"{report.seconds:.2f} s")


def _show_summary(console: Screen, report: Report) -> None:
    say = console.say
    counts = Counter(run.outcome for run in report.runs)
    console.print(Text(say("Summary"), "bold"))
    for outcome in OUTCOMES:
        if count := counts[outcome]:
            runs = say("{count} run", count=1) if count == 1 else say("{count} runs", count=count)
            console.print(Text("  ").append_text(outcome_text(outcome, say)), runs)


def show_runs(console: Screen, runs: Sequence[RunReport], probes: Sequence[Probe]) -> None:
    """Print a table for each probe."""
    docs = {probe.name: probe.doc.splitlines()[0] for probe in probes}
    for name, group in groupby(runs, key=lambda run: run.probe):
        console.print(_probe_table(console, name, docs[name], list(group)))


def _probe_table(console: Screen, name: str, doc: str, runs: list[RunReport]) -> RenderableType:
    say = console.say
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=11)
    table.add_column(ratio=1)
    entries = _merge(runs, say)
    for losses, run in entries:
        table.add_row(losses, _headline(run, say))
        if len(entries) < len(runs) and any(_shown(run) != _shown(other) for other in runs):
            table.add_row("", Text(say("under the {loss} loss:", loss=say(run.loss or ""))))
        for label, text in _rows(console, run):
            table.add_row(label, text)
    head = Text(name, "bold"), Padding(Text(say(doc)), (0, 0, 0, 2))
    return Group(*head, Padding(table, (0, 0, 1, 2)))


def _rows(console: Screen, run: RunReport) -> Iterator[tuple[str, Text]]:
    """Yield the rows of a run below its headline, each with its label."""
    say = console.say
    yield "", Text(say(run.evidence))
    if run.stage and run.stage not in ("revealed", "not-reached"):
        yield "", Text(say(run.why))
    if run.fingerprint:
        yield say("looks like"), Text(say(run.fingerprint))
    if run.first_divergence and run.loss:  # in a log, the evidence says at which step
        yield say("first seen"), Text(say(run.first_divergence))
    if run.graph:
        yield say("graph"), graph_list(console, run.graph, console.width - LABELS)
    yield from (("", picture) for picture in _pictures(console, run))
    if run.caught_by:
        yield say("caught by"), Text(", ".join(run.caught_by), "green")
    if finite := [f"{margin:.0f}" for margin in sorted(run.margins.values()) if margin < math.inf]:
        span = "-".join(dict.fromkeys((finite[0], finite[-1])))
        over = say("{span} orders of magnitude above the clean engine's own deviation", span=span)
        yield "", Text(over)
    if run.outcome not in ("disguised-correct", "not-reached"):
        if run.missed_by:
            yield say("missed by"), Text(", ".join(run.missed_by), "red")
        if run.declined:
            yield say("declined"), Text(_declined(run.declined, say))
    if run.outcome == "not-reached":
        return
    for diagnostic, alarm in run.wrong_reason.items():
        also = say(
            "{diagnostic} also raises an alarm on the clean engine: {alarm}",
            diagnostic=diagnostic,
            alarm=alarm,
        )
        yield say("not a catch"), Text(also)


LABELS = 14
"""The columns to the left of a picture."""


def _pictures(console: Screen, run: RunReport) -> Iterator[Text]:
    """Yield the array that differs as a heat map, and the losses of a training run as lines."""
    width = console.width - LABELS
    if run.array:
        yield heat_map(console, run.array, width)
    if run.losses:
        yield curves(console, run.losses, width)


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
        text.append(f"  {say('better than correct')}", "bold")
    if run.agrees is False:
        style = "bold red reverse"
        expected = say("the page says {outcome}", outcome=say(run.expected or ""))
        text.append(f"  {expected}", style)
    elif run.agrees is None:
        text.append(f"  {say('not stated')}", "not bold")
    return text


def _merge(runs: list[RunReport], say: Language) -> list[tuple[str, RunReport]]:
    """Return the runs by loss; losses with the same result share one entry, with the last run."""

    def end(run: RunReport) -> tuple[object, ...]:
        verdicts = run.caught_by, run.no_alarm, list(run.declined)
        return run.outcome, run.kind, run.stage, run.why, verdicts, run.agrees

    if len(runs) > 1 and all(end(run) == end(runs[0]) for run in runs):
        return [(say("both losses"), runs[-1])]
    return [(say(run.loss or ""), run) for run in runs]


def _shown(run: RunReport) -> tuple[object, ...]:
    """Return what is shown of a run below its headline, except for verdicts."""
    return run.evidence, run.fingerprint, run.first_divergence, run.margins


def _show_left_out(console: Screen, report: Report) -> None:
    """Print the probes that cannot be used to judge the engine, by reason."""
    for line in left_out_by_reason(report, console.say):
        console.print(line)
    if report.left_out:
        console.print()


def _show_skipped(console: Screen, report: Report) -> None:
    """Print the diagnostics that checked no run, because of a missing library or an unfit probe."""
    say = console.say
    for name, reason in report.missing.items():
        line = say("Skipped: {diagnostic}, because {reason}", diagnostic=name, reason=reason)
        console.print(Text(line))
    ran = {name for run in report.runs for name in (*run.caught_by, *run.no_alarm)}
    ran |= {name for run in report.runs for name in (*run.wrong_reason, *run.declined)}
    ran |= report.missing.keys()
    idle = dict.fromkeys(name for run in report.runs for name in run.skipped if name not in ran)
    if idle:
        line = say("Not applicable here: {diagnostics}", diagnostics=", ".join(idle))
        console.print(Text(line))
    if idle or report.missing:
        console.print()
