"""A break with everything that was recorded of its runs: its report, arrays and backward walks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.report import Report
from harness.core.run import Run, TraceStep
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, RunId
from harness.experiment.lab import inside_runs, run_lab
from harness.experiment.patching import prepare, with_in_place
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe


@dataclass(frozen=True)
class RunPair:
    """The runs of a probe with a loss, by the unbroken and by the broken engine."""

    clean: Run
    broken: Run
    clean_walk: Sequence[TraceStep]
    broken_walk: Sequence[TraceStep]


@dataclass(frozen=True)
class Recorded:
    """A page that was run, by the unbroken and by the broken engine."""

    page: Page
    report: Report
    probes: Sequence[Probe]
    pairs: Mapping[RunId, RunPair]


def record(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    baseline: Baseline,
    variant: Page | None = None,
) -> Recorded:
    """Run a page's probes, as `harness break` does, and return all that was recorded."""
    experiment = with_in_place(prepare(page, catalogue, engine, variant=variant), catalogue)
    report = run_lab(experiment, baseline, causes=True)
    clean = baseline.clean_runs(experiment.clean, experiment.probes)
    broken = baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    gradients = [probe for probe in experiment.probes if probe.kind == "gradient"]
    inside = inside_runs(experiment, baseline, gradients)
    pairs = {}
    for run in broken:
        pair = run.probe, run.loss
        broken_walk, clean_walk = inside[pair].walks if pair in inside else ((), ())
        pairs[pair] = RunPair(clean[pair], run, clean_walk, broken_walk)
    return Recorded(page, report, experiment.probes, pairs)
