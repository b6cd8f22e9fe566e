"""What `harness break` adds to the learner's progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness.cli.session import Session
from harness.core.report import Report
from harness.learn.events import Finished, Prediction

if TYPE_CHECKING:
    from harness.pages.page import Page
    from harness.training.record import TrainingReport


def record_break(
    session: Session,
    page: Page,
    report: Report | TrainingReport,
    predictions: Mapping[str, str],
) -> None:
    """Remember that the report was read, and the predictions with what was observed.

    Nothing is remembered about another engine, since a page is about ours.
    """
    if not report.engine.foreign:
        judged = _judged(page, report, predictions)
        session.journal.record(*judged, Finished(page=page.id))


def _judged(
    page: Page, report: Report | TrainingReport, predictions: Mapping[str, str]
) -> Iterator[Prediction]:
    for name, predicted in predictions.items():
        if observed := _observed(report, name):
            right = predicted in observed
            actual = predicted if right else observed[0]
            yield Prediction(
                page=page.id,
                probe=name,
                loss=None,
                predicted=predicted,
                actual=actual,
                right=right,
            )


def _observed(report: Report | TrainingReport, name: str) -> list[str]:
    """Return how a probe ended under each loss, or how a metric of a training moved."""
    if isinstance(report, Report):
        return [run.outcome for run in report.runs if run.probe == name]
    return [item.verdict for item in report.metrics if item.metric == name]
