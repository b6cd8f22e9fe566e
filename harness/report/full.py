"""The whole report on a break: probe by probe, or, for a training break, metric by metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.message import shortened
from harness.core.report import DrawnComparison, Report, RunReport
from harness.core.vocabulary import OUTCOMES
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.language import Language
from harness.report.one_screen import show_advice, show_problems
from harness.report.pages import show_section
from harness.report.pictures import curves, graph_list, heat_map
from harness.report.terminal import MOST_OF_A_REASON, Screen, columns, outcome_text
from harness.report.view import left_out_by_reason, stated

if TYPE_CHECKING:  # only `harness break` of a training break enters this room
    from harness.training.comparison import AlarmReport, Band, MetricReport, Shift, TrainingReport

# ----- Probe by probe -----


def show_full(console: Screen, report: Report, probes: Sequence[Probe]) -> None:
    """Print a table for each probe, then how the runs compare with the page."""
    say = console.say
    show_runs(console, report.runs, probes)
    for line in left_out_by_reason(report, say):
        console.print(Text(line))
    if report.left_out:
        console.print()
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
    table = columns(1)
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
    if run.array:
        yield "", heat_map(console, run.array, console.width - LABELS)
    if run.losses:
        yield "", _losses(console, run.losses, console.width - LABELS)
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
            reasons = {name: say(reason) for name, reason in run.declined.items()}
            shown = [f"{n} ({shortened(why, MOST_OF_A_REASON)})" for n, why in reasons.items()]
            yield say("declined"), Text(", ".join(shown))
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


def _losses(console: Screen, losses: DrawnComparison, width: int) -> Text:
    expected, actual = losses.expected.values, losses.actual.values
    return curves(console, expected, actual, (console.say("correct"), console.say("broken")), width)


def _headline(run: RunReport, say: Language) -> Text:
    text = outcome_text(run.outcome, say)
    if run.kind:
        text.append(f" ({say(run.kind)})", "not bold")
    if run.better_than_correct:
        text.append(f"  {say('better than correct')}", "bold")
    if run.agrees is False:
        text.append(f"  {stated(run.expected, say)}", "bold red reverse")
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


# ----- A training break -----

SHIFTS: dict[Shift, tuple[str, str]] = {
    "higher": ("↑", "bold magenta"),
    "lower": ("↓", "bold magenta"),
    "same": ("=", ""),
    "unclear": ("?", ""),
}
"""The sign and the style of each verdict; colour is never the only difference."""


MOST_COLUMNS = 1000
"""A width that every table fits."""


def show_training(console: Screen, report: TrainingReport, *, page: Page) -> None:
    """Print the table, what a single run would have shown, and the lesson."""
    say = console.say
    for line in _crash_lines(report, say):
        console.print(line)
    if report.metrics:
        _show_metrics(console, report)
    if report.losses:
        console.print(Text(say("The loss in the run with seed 0"), "bold"))
        picture = _losses(console, report.losses, console.width - 2)
        console.print(Padding(picture, (0, 0, 1, 2)))
    if report.metrics:
        console.print(Text(say("Would a single run have shown it?"), "bold"))
        console.print(Padding(Text(_one_run(report, say)), (0, 0, 1, 2)))
    show_advice(console, report)
    if report.alarms:
        console.print(Padding(Text(_alarms(report.alarms, say)), (0, 0, 1, 0)))
    lessons = [heading for heading in page.headings if heading in ("Lesson", say("Lesson"))]
    for heading in lessons[:1]:
        show_section(console, heading, page.section(heading))
    if report.agrees:
        console.print(
            Text(say("Everything is as the page says."), "green"),
            Text(f"{report.seconds:.1f} s"),
        )
    else:
        console.print(Text(say("Some results are not as the page says."), "bold red"))


def _show_metrics(console: Screen, report: TrainingReport) -> None:
    """Print the table and its legend; in a narrow window, without the ranges."""
    say = console.say
    table = _metrics(report, say, _band)
    legend = say("median (lowest to highest); * not in the log: measured on later data")
    unlimited = console.options.update_width(MOST_COLUMNS)
    if console.measure(table, options=unlimited).maximum > console.width:
        table = _metrics(report, say, lambda band: f"{band.median:.3g}")
        legend = say("median; * not in the log: measured on later data")
    console.print(table)
    for item in report.metrics:
        for remark in _remarks(item, say):
            console.print(Text(f"{item.metric}: ").append_text(remark))
    console.print(Text(f"{legend}\n"))


def _metrics(report: TrainingReport, say: Language, band: Callable[[Band], str]) -> Table:
    table = columns(1, headings=True)
    table.add_column(say("{count} seeds", count=report.seeds), no_wrap=True)
    for heading in (say("correct"), say("broken"), ""):
        table.add_column(heading, no_wrap=True)
    table.add_column(say("outside"), justify="right", no_wrap=True)
    for item in report.metrics:
        sign, style = SHIFTS[item.verdict]
        name = Text(item.metric, "bold") if item.in_log else Text(f"{item.metric}*")
        share = f"{item.one_run_tells:.0%}" if item.in_log else ""
        shift = Text(f"{sign} {say(item.verdict)}", style)
        table.add_row(name, band(item.clean), band(item.broken), shift, share)
    return table


def _band(band: Band) -> str:
    if band.low == band.high:
        return f"{band.median:.3g}"
    return f"{band.median:.3g} ({band.low:.3g}..{band.high:.3g})"


def _remarks(item: MetricReport, say: Language) -> Iterator[Text]:
    if item.better_than_correct:
        yield Text(say("better than correct"), "bold yellow")
    if item.agrees is False:
        yield Text(stated(item.expected, say), "bold red reverse")


def _crash_lines(report: TrainingReport, say: Language) -> Iterator[Text]:
    crash = report.crash
    if crash.count:
        yield Text(
            "✗ " + say("{count} of {total} runs crash", count=crash.count, total=report.seeds),
            "bold red",
        )
        yield Text(f"{crash.evidence}\n")
    if not crash.agrees:
        expected = f"crash: {say(crash.expected)}"
        yield Text(say("the page says {outcome}", outcome=expected), "bold red reverse")


def _one_run(report: TrainingReport, say: Language) -> str:
    single_run = say(
        "{broken} of the broken logs have a value outside the range of the correct runs with other "
        "seeds; so do {correct} of the correct logs.",
        broken=f"{report.one_run_tells:.0%}",
        correct=f"{report.one_run_accuses:.0%}",
    )
    if report.runs_needed is None:
        return f"{single_run} {say('No metric in the log was shown to differ.')}"
    more = say(
        "Comparing {count} runs of each kind shows the difference four times out of five, in the "
        "metric of the log that shows it best.",
        count=report.runs_needed,
    )
    return f"{single_run} {more}"


def _alarms(alarms: AlarmReport, say: Language) -> str:
    observed = say(
        "The check under Write fails on {broken} of the broken logs, and on {correct} of the "
        "correct ones.",
        broken=f"{alarms.true:.0%}",
        correct=f"{alarms.false:.0%}",
    )
    if alarms.problem:
        return say("The check under Write stops early, {problem}", problem=alarms.problem)
    if alarms.agrees or alarms.stated_true is None or alarms.stated_false is None:
        return observed
    stated = say(
        "The page says {broken} and {correct}.",
        broken=f"{alarms.stated_true:.0%}",
        correct=f"{alarms.stated_false:.0%}",
    )
    return f"{observed} {stated}"
