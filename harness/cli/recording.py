"""What `harness break` adds to the learner's progress."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.cli.session import Session
from harness.core.report import PredictionReport, Report
from harness.core.vocabulary import shortened, visible
from harness.learn import events

if TYPE_CHECKING:
    from harness.pages.page import Page
    from harness.training.record import TrainingReport


def record_break(
    session: Session,
    page: Page,
    report: Report | TrainingReport,
    predictions: Iterable[PredictionReport],
) -> None:
    """Remember that the report was read, and the predictions with what was observed.

    Nothing is remembered about another engine, since a page is about ours.
    """
    if report.engine.foreign:
        return
    predicted = (
        events.Prediction(
            page=item.page,
            probe=_line(item.probe),
            loss=item.loss,
            predicted=_line(item.predicted),
            actual=_line(item.actual),
            right=item.right,
            question=_line(item.question),
        )
        for item in predictions
    )
    session.journal.record(*predicted, events.Finished(page=page.id))


def _line(text: str) -> str:
    """Return a text in a form that an event can store: a typed answer may contain anything."""
    return shortened(visible(" ".join(text.split())), events.LONGEST)
