"""One runner for every kind of page: a page in, the report of its kind out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.core.report import Report
from harness.experiment.baseline import Context
from harness.experiment.lab import run_lab
from harness.experiment.myth import MythReport, run_myth
from harness.experiment.patching import Experiment, prepare
from harness.grade.exercise import ExerciseReport, run_exercise
from harness.pages.front_matter import Exercise, Myth, TrainingBreak
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.training.comparison import TrainingReport
from harness.training.lab import run_training
from harness.training.recipe import TrainingExperiment, prepare_training

PageReport = Report | TrainingReport | MythReport | ExerciseReport


def run_page(
    page: Page,
    context: Context,
    variant: Page | None = None,
    probes: Sequence[Probe] = (),
    suite_file: Path | None = None,
) -> PageReport:
    """Run a page as its kind requires, and return the comparison with what it states.

    `variant` is for a page with a patch; `probes` or `suite_file` are a learner's, for an exercise.

    Raises what the runner of that kind raises: PageError, HunkError, DoesNotApply, UsageError or
    EnvironmentProblem.
    """
    match page.front:
        case Myth():
            return run_myth(page, context.baseline.limits)
        case Exercise():
            return run_exercise(page, context, probes, suite_file=suite_file)
    experiment = prepare_page(page, context, variant)
    if isinstance(experiment, TrainingExperiment):
        return run_training(experiment, context.baseline.cache)
    return run_lab(experiment, context.baseline)


def prepare_page(
    page: Page, context: Context, variant: Page | None = None
) -> Experiment | TrainingExperiment:
    """Put the patch of a page into the engine; nothing is executed.

    Raises UsageError for a myth or an exercise, which have no patch, and what `prepare` and
    `prepare_training` raise.
    """
    catalogue, engine = context.catalogue, context.engine
    if isinstance(page.front, TrainingBreak):
        return prepare_training(page, catalogue, engine, variant=variant)
    return prepare(page, catalogue, engine, variant=variant)
