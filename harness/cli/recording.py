"""What `harness break` adds to the learner's progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from harness.cli.session import Session
from harness.core.report import Report
from harness.core.vocabulary import Loss, shortened, visible
from harness.learn.events import LONGEST, Finished, Prediction

if TYPE_CHECKING:
    from harness.pages.page import Page
    from harness.training.record import TrainingReport


class Judged(Protocol):
    """A prediction beside what was observed; see `harness.learn.events.Prediction`."""

    @property
    def page(self) -> str:
        """The id of the page."""

    @property
    def probe(self) -> str:
        """The probe, or a metric of a training."""

    @property
    def loss(self) -> Loss | None:
        """The loss; None for all losses of the probe."""

    @property
    def predicted(self) -> str:
        """An outcome, a move of a metric, or an answer to a question."""

    @property
    def actual(self) -> str:
        """What was observed."""

    @property
    def right(self) -> bool:
        """Whether they agree."""

    @property
    def question(self) -> str:
        """The page's question; empty if there was none."""


def record_break(
    session: Session,
    page: Page,
    report: Report | TrainingReport,
    predictions: Iterable[Judged],
) -> None:
    """Remember that the report was read, and the predictions with what was observed.

    Nothing is remembered about another engine, since a page is about ours.
    """
    if report.engine.foreign:
        return
    events = (
        Prediction(
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
    session.journal.record(*events, Finished(page=page.id))


def _line(text: str) -> str:
    """Return a text as an event may hold it: an answer that was typed may contain anything."""
    return shortened(visible(" ".join(text.split())), LONGEST)


def judged(
    page: Page, report: Report | TrainingReport, predictions: Mapping[str, str]
) -> Iterator[Judged]:
    """Yield each prediction about a probe or a metric with what was observed.

    A probe that ends differently under its two losses is predicted right by either.
    """
    for name, predicted in predictions.items():
        if observed := _observed(report, name):
            right = predicted in observed
            yield Prediction(
                page=page.id,
                probe=name,
                loss=None,
                predicted=predicted,
                actual=predicted if right else observed[0],
                right=right,
            )


def _observed(report: Report | TrainingReport, name: str) -> list[str]:
    """Return how a probe ended under each loss, or how a metric of a training moved."""
    if isinstance(report, Report):
        return [run.outcome for run in report.runs if run.probe == name]
    return [item.verdict for item in report.metrics if item.metric == name]
