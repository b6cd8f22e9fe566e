"""Probes with sums and products alone, which replace others on engines that have nothing else."""

import pytest

from harness.core.vocabulary import Outcome
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import Experiment, prepare
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import SCALAR

STAND_INS = CATALOGUE.conventions.stand_ins


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return Baseline(open_cache()).bare()


def experiment_on(page_id: str) -> Experiment:
    engine = engine_of(SCALAR, like=SCALAR, name="Value")
    return prepare(CATALOGUE.page(page_id), CATALOGUE, engine)


def test_a_stand_in_replaces_a_probe_that_the_engine_cannot_run(baseline: Baseline) -> None:
    report = run_lab(experiment_on("assign-not-accumulate"), baseline)
    outcomes = {run.probe: run.outcome for run in report.runs}
    assert outcomes["reused-product"] == "silent-corruption"
    assert "reused-interior-node" not in {*outcomes, *report.left_out}
    assert all(run.agrees for run in report.runs if run.probe == "reused-product")
    assert report.unjudged == []


def test_a_break_is_not_judged_if_the_engine_runs_no_input_that_shows_it(
    baseline: Baseline,
) -> None:
    experiment = prepare(
        CATALOGUE.page("assign-not-accumulate"),
        CATALOGUE,
        engine_of(SCALAR, like=SCALAR, name="Value"),
        probes=("mul", "fit-one-sign"),
    )
    report = run_lab(experiment, baseline)
    assert {run.outcome for run in report.runs} <= {"disguised-correct"}
    assert (report.unjudged, report.judged) == (["fit-one-sign"], False)


def stating() -> list[Page]:
    return [
        page
        for page in CATALOGUE.valid_pages()
        if isinstance(page.front, Break)
        and any(name in table for table in page.expect.values() for name in STAND_INS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", stating(), ids=lambda page: page.id)
def test_a_break_ends_in_the_same_way_on_a_stand_in(baseline: Baseline, page: Page) -> None:
    for variant, table in page.expect.items():
        names = [name for name in STAND_INS if name in table]
        experiment = prepare(
            page,
            CATALOGUE,
            find_engine(),
            variant=CATALOGUE.page(variant, "variant") if variant else None,
            probes=[*names, *(STAND_INS[name] for name in names)],
        )
        ends: dict[str, set[Outcome]] = {}
        for run in run_lab(experiment, baseline).runs:
            ends.setdefault(run.probe, set()).add(run.outcome)
        for name in names:
            assert ends[name] == ends[STAND_INS[name]], (variant, name)
