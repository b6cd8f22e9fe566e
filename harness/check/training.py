"""A page of the training tier against observation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.core.finding import Finding
from harness.engines.engine import Engine
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.runs.store import Store
from harness.training.experiment import prepare_training
from harness.training.lab import run_training
from harness.training.record import MetricReport, TrainingReport

FOREIGN_KEYS = ("transformer", "diagnostics", "pardon", "needs")
"""Keys of the front matter that say nothing here: the diagnostic of this tier is the band."""


def check_training(
    page: Page, catalogue: Catalogue, engine: Engine, store: Store, reports: list[Any]
) -> Iterator[Finding]:
    """Where the page and the report on it part; the report is added to `reports`.

    Raises as `prepare_training` and `run_training` do.
    """
    yield from _check_front(page)
    report = run_training(prepare_training(page, catalogue, engine), store)
    reports.append(report)
    yield from _check_crash(page, report)
    yield from _check_metrics(page, report)


def _check_front(page: Page) -> Iterator[Finding]:
    for key in FOREIGN_KEYS:
        if getattr(page.front, key):
            remedy = "leave it out: a page with a recipe is judged by its metrics"
            line = page.line_of(key)
            yield Finding(page.path, line, f"key `{key}` on a page with a recipe", remedy)
    if page.probes:
        remedy = "leave the section out: its probe is the recipe"
        yield Finding(page.path, page.body_line, "probes on a page with a recipe", remedy)
    if page.front.kind != "break":
        problem = f"a {page.front.kind} with a recipe"
        remedy = 'only a break changes a training: `kind = "break"`'
        yield Finding(page.path, page.line_of("recipe"), problem, remedy)
    if not page.front.expect:
        remedy = '`harness break` shows the metrics; begin with `validation_loss = "higher"`'
        yield Finding(page.path, 1, "states nothing of any metric", remedy)


def _check_crash(page: Page, report: TrainingReport) -> Iterator[Finding]:
    crash = report.crash
    if not crash.agrees:
        seen = f"observed: {crash.seen}, {crash.count} of {report.seeds} runs"
        problem = f"says that it crashes {crash.expected}; {seen} {crash.evidence}".rstrip()
        remedy = "mend the patch; or, once you can say why, write "
        remedy += f'`crash = "{crash.seen}"`' if crash.count else "nothing of a crash"
        yield Finding(page.path, page.line_of("expect", "crash"), problem, remedy)


def _check_metrics(page: Page, report: TrainingReport) -> Iterator[Finding]:
    for one in report.metrics:
        if one.agrees is False:
            problem = f"says {one.expected} of `{one.metric}`; observed: {one.verdict}, {_why(one)}"
            remedy = "mend the patch; or, once you can say why, write what is seen"
            if one.verdict == "unclear":
                remedy = "say nothing of it: these runs neither show a difference nor exclude one"
            yield Finding(page.path, page.line_of("expect", one.metric), problem, remedy)
    judged = {one.metric for one in report.metrics}
    for metric in page.front.expect:
        if metric not in judged and metric != "crash":
            problem = f"says something of `{metric}`, and too few broken runs ended to judge it"
            line = page.line_of("expect", metric)
            yield Finding(page.path, line, problem, "leave it out")


def _why(one: MetricReport) -> str:
    low, high = one.interval
    return f"A = {one.effect:.2f} ({low:.2f} to {high:.2f}), p = {one.p:.2g}"
