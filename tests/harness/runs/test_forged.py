"""Results that no measurement returns: they are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.run import Measured, Run, pack
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.runs.cache import Cache
from harness.runs.isolated import run_isolated
from harness.runs.protocol import Job, is_possible
from tests.harness.bundled import CATALOGUE

PROBES = [
    "relu-at-kinks",
    "reused-leaf",
    "causal-two-heads",
    "resume-momentum",
    "module-batch-norm",
]


@pytest.fixture(scope="module")
def job() -> Job:
    probes = [CATALOGUE.shared_probes[name] for name in PROBES]
    return Baseline(Cache(None))._clean_job(find_engine(), probes)


@pytest.fixture(scope="module")
def runs(job: Job) -> list[Run]:
    return run_isolated(job)


def accepted(job: Job, run: Run, **fields: Any) -> bool:
    """Whether a run can have these fields."""
    (index,) = {step.probe for step in job.steps if job.probes[step.probe].name == run.probe}
    changed = msgspec.structs.replace(run, **fields)
    return is_possible(changed, job.probes[index], run.loss, job.measure, may_be_empty=False)


def test_real_results_are_accepted(job: Job, runs: list[Run]) -> None:
    measured = {name for run in runs for name, result in run.measured.items() if result.values}
    assert {"gradcheck", "kinks", "causality", "checkpoint", "metamorphic"} <= measured
    assert all(accepted(job, run) for run in runs)


def test_a_measurement_that_is_missing_or_was_not_asked_for_is_refused(
    job: Job, runs: list[Run]
) -> None:
    for run in runs:
        assert not accepted(job, run, measured={**run.measured, "new": Measured()})
        for name in run.measured:
            rest = {key: item for key, item in run.measured.items() if key != name}
            assert not accepted(job, run, measured=rest)


def test_arrays_with_other_keys_shapes_or_dtypes_are_refused(job: Job, runs: list[Run]) -> None:
    refused = 0
    for run in runs:
        for name, result in run.measured.items():
            for wrong in wrong_results(result):
                assert not accepted(job, run, measured={**run.measured, name: wrong}), name
                refused += 1
    assert refused > 100


def wrong_results(result: Measured) -> list[Measured]:
    """Return results that no measurement returns."""
    values: Mapping[str, Any] = result.values
    extra = pack(np.zeros(3))
    return [
        msgspec.structs.replace(result, values={**values, "no such key": extra}),
        msgspec.structs.replace(result, numbers={**result.numbers, "no such key": 1.0}),
        msgspec.structs.replace(result, values={"": extra}, failure="ValueError: no"),
    ]


@pytest.mark.parametrize("name", ["gradcheck", "torch", "autograd", "kinks", "forward", "purity"])
def test_what_is_required_must_be_there(job: Job, runs: list[Run], name: str) -> None:
    (run,) = (run for run in runs if (run.probe, run.loss) == ("relu-at-kinks", "uniform"))
    result = run.measured[name]
    assert result.values or result.numbers
    for field in ("values", "numbers"):
        table = getattr(result, field)
        for key in table:
            rest = {other: item for other, item in table.items() if other != key}
            wrong = msgspec.structs.replace(result, **{field: rest})
            empty = not (wrong.values or wrong.numbers)
            assert (empty and name == "kinks") or not accepted(
                job, run, measured={**run.measured, name: wrong}
            )


@pytest.mark.parametrize("name", ["gradcheck", "torch", "autograd", "kinks"])
def test_arrays_have_the_declared_shape_and_kind(job: Job, runs: list[Run], name: str) -> None:
    (run,) = (run for run in runs if (run.probe, run.loss) == ("relu-at-kinks", "uniform"))
    result = run.measured[name]
    for key in result.values:
        array = result.values[key].numpy()
        for other in (array.astype(complex), np.zeros((*array.shape, 2)), np.zeros(array.size + 7)):
            wrong = Measured({**result.values, key: pack(other)}, result.numbers)
            assert not accepted(job, run, measured={**run.measured, name: wrong}), key


def test_a_length_with_a_name_is_the_same_everywhere() -> None:
    form = MeasurementForm((Quantity("rows", "n"), Quantity("table", "n 2")))
    fitting = {"rows": pack(np.zeros(3)), "table": pack(np.zeros((3, 2)))}
    assert form.fits(Measured(fitting), {})
    assert not form.fits(Measured({**fitting, "table": pack(np.zeros((4, 2)))}), {})
    assert not form.fits(Measured({**fitting, "table": pack(np.zeros((3, 3)))}), {})


def test_an_empty_run_has_no_measurements(job: Job, runs: list[Run]) -> None:
    run = Run(runs[0].probe, runs[0].loss, measured=runs[0].measured)
    probe = job.probes[0]
    assert not is_possible(run, probe, run.loss, job.measure, may_be_empty=True)


def test_a_complex_number_in_a_log_is_refused(job: Job, runs: list[Run]) -> None:
    (run,) = (run for run in runs if run.probe == "resume-momentum")
    first, *rest = run.log
    name, array = next(iter(first.items()))
    forged = {**first, name: pack(array.numpy().astype(complex))}
    assert not accepted(job, run, log=[forged, *rest])
