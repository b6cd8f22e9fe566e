"""`checkpoint`: a training run resumed from what it saved equals one that was never interrupted.

They are equal bit for bit: anything that a checkpoint omits (moments, a step count, a generator,
running statistics) shows in the log, and rounding is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import Message, message
from harness.core.run import REAL, Array, Measured, Run
from harness.core.vocabulary import Alarm, Declined, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation

if TYPE_CHECKING:
    from harness.runs.trial import Trial

STRAIGHT, AGAIN = "straight", "again"


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the log of the same training without the interruption, and again with it."""
    if trial.probe.resume_at is None:
        return Measured()
    values = run.values()
    straight = _flat(STRAIGHT, trial.steps(trial.leaves(values), resume_at=None))
    return Measured({**straight, **_flat(AGAIN, trial.steps(trial.leaves(values)))})


def _flat(way: str, log: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Return a log as one table, the form in which measurements are sent."""
    return {
        f"{way}/{step}/{key}": array
        for step, snapshot in enumerate(log)
        for key, array in snapshot.items()
    }


def check(observation: Observation) -> Verdict:
    """Alarm at the first step and entry at which the logs differ."""
    run, values = observation.run, observation.run.measured["checkpoint"].values
    resume_at = observation.probe.resume_at
    if resume_at is None:
        return Skipped(message("the probe never saves and resumes: it has no `resume_at`"))
    if difference := _first_difference(_flat(AGAIN, run.log), values, AGAIN):
        return Alarm(
            message(
                "the same training gives two different logs: {difference}", difference=difference
            )
        )
    if difference := _first_difference(_flat(STRAIGHT, run.log), values, STRAIGHT):
        return Alarm(
            message(
                "resumed at step {step}, the training differs from the uninterrupted one: "
                "{difference}",
                step=resume_at,
                difference=difference,
            )
        )
    compared = sum(
        not np.isnan(array.numpy()).all()
        for snapshot in run.log[resume_at:]
        for array in snapshot.values()
    )
    if not compared:
        return Declined(message("no number is logged after the training resumes"))
    return Silent(compared)


def _first_difference(
    actual: Mapping[str, Array], measured: Mapping[str, Array], way: str
) -> Message | None:
    """Return the first difference in the order of the log; the length is compared last."""
    expected = {name: array for name, array in measured.items() if name.startswith(f"{way}/")}
    for name in [*actual, *expected]:
        _, step, entry = name.split("/", 2)
        if name not in actual or name not in expected:
            return message("only one of them logs {entry} at step {step}", entry=entry, step=step)
        if actual[name] != expected[name]:  # bit for bit, so NaN equals itself
            return _difference(entry, step, actual[name], expected[name])
    return None


def _difference(entry: str, step: str, actual: Array, expected: Array) -> Message:
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        one, other = (f"{array.dtype} {array.shape}" for array in (actual, expected))
        return message(
            "{entry} at step {step} is {one} and {other}",
            entry=entry,
            step=step,
            one=one,
            other=other,
        )
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.numpy().astype(float) - expected.numpy().astype(float))
    finite = error[np.isfinite(error)]
    return message(
        "{entry} at step {step} differs by up to {error}",
        entry=entry,
        step=step,
        error=f"{finite.max():.3g}" if finite.any() else "NaN",
    )


CHECKPOINT = Diagnostic(
    name="checkpoint",
    sees="any state of a training run that its checkpoint does not save",
    blind="a training run that is wrong in the same way with and without an interruption",
    cost="9: two more training runs",
    passes=lambda _: 9,
    check=check,
    measure=measure,
    form=MeasurementForm(
        tuple(
            Quantity(f"{way}/{{number}}/{{text}}", "any", REAL, required=False)
            for way in (STRAIGHT, AGAIN)
        )
    ),
    kinds=("steps",),
)
