"""The check of a training break: its metrics, over many seeds, are as the page states."""

from __future__ import annotations

from collections.abc import Iterator

from harness.check.runner import run_page
from harness.core.finding import Finding
from harness.experiment.context import Context
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Page
from harness.training.record import AlarmReport, MetricReport, TrainingReport


def check_training(page: Page, context: Context) -> Iterator[Finding | TrainingReport]:
    """Yield the report on a training break, and each difference between page and report.

    Raises what `run_page` raises.
    """
    yield from _check_page(page)
    report = run_page(page, context)
    assert isinstance(report, TrainingReport)
    yield report
    yield from _check_crash(page, report)
    yield from _check_metrics(page, report)
    yield from _check_alarms(page, report.alarms)


def _check_page(page: Page) -> Iterator[Finding]:
    if page.probes:
        remedy = "remove the section: the recipe takes the place of probes"
        yield Finding(page.path, page.body_line, "probes on a page with a recipe", remedy)
    if not page.front_as(TrainingBreak).expect:
        remedy = '`harness break` shows the metrics; start with `validation_loss = "higher"`'
        yield Finding(page.path, 1, "states nothing about any metric", remedy)


def _check_crash(page: Page, report: TrainingReport) -> Iterator[Finding]:
    crash = report.crash
    if not crash.agrees:
        observed = f"observed: {crash.observed}, {crash.count} of {report.seeds} runs"
        problem = f"says that it crashes {crash.expected}; {observed} {crash.evidence}".rstrip()
        remedy = "correct the patch; or, once you can explain it, "
        remedy += f'write `crash = "{crash.observed}"`' if crash.count else "leave `crash` out"
        yield Finding(page.path, page.line_of("expect", "crash"), problem, remedy)


def _check_metrics(page: Page, report: TrainingReport) -> Iterator[Finding]:
    for metric in report.metrics:
        if metric.agrees is False:
            observed = f"observed: {metric.verdict}, {_statistics(metric)}"
            problem = f"says {metric.expected} for `{metric.metric}`; {observed}"
            remedy = "correct the patch; or, once you can explain it, write what is observed"
            if metric.verdict == "unclear":
                remedy = "leave it out: these runs neither show a difference nor exclude one"
            yield Finding(page.path, page.line_of("expect", metric.metric), problem, remedy)
    judged = {metric.metric for metric in report.metrics}
    for name in page.front_as(TrainingBreak).expect:
        if name not in judged and name != "crash":
            problem = f"states an outcome for `{name}`, but too few broken runs ended to judge it"
            yield Finding(page.path, page.line_of("expect", name), problem, "leave it out")


def _check_alarms(page: Page, alarms: AlarmReport | None) -> Iterator[Finding]:
    """Yield where the invariant does not tell broken runs from correct ones as the page states."""
    front = page.front_as(TrainingBreak)
    if alarms is None:
        if front.alarms:
            problem, remedy = "has `[alarms]`, but no invariant", "write one, or remove `[alarms]`"
            yield Finding(page.path, page.line_of("alarms"), problem, remedy)
        return
    line = page.line_of("alarms") if front.alarms else 1
    if front.no_invariant:
        problem, remedy = "`no_invariant` on a page that has an invariant", "remove one of the two"
        yield Finding(page.path, page.line_of("no_invariant"), problem, remedy)
    if alarms.problem:
        problem = f"the invariant stops before an assertion fails, {alarms.problem}"
        yield Finding(page.path, line, problem, "correct it: its argument is the log of one run")
        return
    if alarms.true <= alarms.false:
        problem = (
            f"the invariant fails on {alarms.false:.0%} of the correct runs, and on only "
            f"{alarms.true:.0%} of the broken ones"
        )
        yield Finding(page.path, line, problem, "assert something that the break violates")
    for name, observed, stated in (
        ("false", alarms.false, alarms.stated_false),
        ("true", alarms.true, alarms.stated_true),
    ):
        if alarms.differs(stated, observed):
            problem = f"says {stated} for alarms.{name}; observed: {observed:.2f}"
            remedy = f"write `{name} = {observed:.2f}` in [alarms]"
            yield Finding(page.path, page.line_of("alarms", name), problem, remedy)


def _statistics(metric: MetricReport) -> str:
    low, high = metric.interval
    return f"A = {metric.effect:.2f} ({low:.2f} to {high:.2f}), p = {metric.p:.2g}"
