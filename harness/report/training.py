"""A training break on a terminal: one metric per row, correct beside broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.pages.page import Page
from harness.report.language import Language
from harness.report.pictures import curves
from harness.report.terminal import (
    Screen,
    show_advice,
    show_section,
)
from harness.training.comparison import AlarmReport, Band, MetricReport, Shift, TrainingReport

STYLES: dict[Shift, tuple[str, str]] = {
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
        picture = curves(console, report.losses, console.width - 2)
        console.print(Padding(picture, (0, 0, 1, 2)))
    if report.metrics:
        console.print(Text(say("Would a single run have shown it?"), "bold"))
        console.print(Padding(Text(_one_run(report, say)), (0, 0, 1, 2)))
    show_advice(console, report)
    if report.alarms:
        console.print(Padding(Text(_alarms(report.alarms, say)), (0, 0, 1, 0)))
    _show_lesson(console, page)
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
    table = _table(report, say, _band)
    legend = say("median (lowest to highest); * not in the log: measured on later data")
    unlimited = console.options.update_width(MOST_COLUMNS)
    if console.measure(table, options=unlimited).maximum > console.width:
        table = _table(report, say, lambda band: f"{band.median:.3g}")
        legend = say("median; * not in the log: measured on later data")
    console.print(table)
    for item in report.metrics:
        for remark in _remarks(item, say):
            console.print(Text(f"{item.metric}: ").append_text(remark))
    console.print(Text(f"{legend}\n"))


def _table(report: TrainingReport, say: Language, band: Callable[[Band], str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(say("{count} seeds", count=report.seeds), no_wrap=True)
    for heading in (say("correct"), say("broken"), ""):
        table.add_column(heading, no_wrap=True)
    table.add_column(say("outside"), justify="right", no_wrap=True)
    for item in report.metrics:
        name = Text(item.metric, "bold") if item.in_log else Text(f"{item.metric}*")
        share = f"{item.one_run_tells:.0%}" if item.in_log else ""
        table.add_row(name, band(item.clean), band(item.broken), _verdict(item.verdict, say), share)
    return table


def _band(band: Band) -> str:
    if band.low == band.high:
        return f"{band.median:.3g}"
    return f"{band.median:.3g} ({band.low:.3g}..{band.high:.3g})"


def _verdict(verdict: Shift, say: Language) -> Text:
    sign, style = STYLES[verdict]
    return Text(f"{sign} {say(verdict)}", style)


def _remarks(item: MetricReport, say: Language) -> Iterator[Text]:
    if item.better_than_correct:
        yield Text(say("better than correct"), "bold yellow")
    if item.agrees is False:
        yield Text(
            say("the page says {outcome}", outcome=say(str(item.expected))), "bold red reverse"
        )


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


def _show_lesson(console: Screen, page: Page) -> None:
    headings = list(page.headings)
    lesson = next((item for item in headings if item in ("Lesson", console.say("Lesson"))), None)
    if lesson:
        show_section(console, lesson, page.section(lesson))
