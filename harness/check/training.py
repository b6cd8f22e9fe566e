"""The check of a training break: its metrics, over many seeds, are as the page states."""

from __future__ import annotations

from collections.abc import Iterator

from harness.check.runner import run_page
from harness.core.finding import Finding
from harness.experiment.context import Context
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Page
from harness.training.record import MetricReport, TrainingReport


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


def _statistics(metric: MetricReport) -> str:
    low, high = metric.interval
    return f"A = {metric.effect:.2f} ({low:.2f} to {high:.2f}), p = {metric.p:.2g}"
