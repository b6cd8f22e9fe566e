"""`checkpoint`: a training that stops and resumes from what it saved equals one that never stopped.

Bit for bit: whatever a checkpoint forgets (moments, a step count, a generator, running statistics)
shows in the log, and rounding is the same both times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from harness.core.message import Message, message
from harness.core.run import Array, Measured, Run
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.runs.trial import Trial

Log = list[dict[str, Array]]

STRAIGHT, AGAIN = "straight", "again"


def measure(trial: Trial, run: Run) -> Measured:
    """The log of the same training without the stop, and once more with it."""
    if trial.probe.resume_at is None:
        return Measured(problem="the probe never saves and resumes: it has no `resume_at`")
    values = {name: leaf.numpy() for name, leaf in run.leaves.items()}
    straight = _flat(STRAIGHT, trial.steps(values, resume_at=None))
    return Measured({**straight, **_flat(AGAIN, trial.steps(values))})


def _flat(way: str, log: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """A log as one table, the form in which measurements travel."""
    return {
        f"{way}/{step}/{key}": array
        for step, snapshot in enumerate(log)
        for key, array in snapshot.items()
    }


def check(observation: Observation) -> Verdict:
    """Alarm at the first step and entry at which the logs differ."""
    run, values = observation.run, observation.run.measured["checkpoint"].values
    if difference := _first_difference(_flat(AGAIN, run.log), values, AGAIN):
        return Alarm(
            message("the same training twice gives two logs: {difference}", difference=difference)
        )
    if difference := _first_difference(_flat(STRAIGHT, run.log), values, STRAIGHT):
        return Alarm(
            message(
                "resumed at step {step}, it is not the training that never stopped: {difference}",
                step=observation.probe.resume_at,
                difference=difference,
            )
        )
    if not values:
        return Skipped(message("there is nothing in the log to compare"))
    return Silent(len(values))


def _first_difference(
    actual: Mapping[str, Array], measured: Mapping[str, Array], way: str
) -> Message | None:
    """The first difference in the order of the log, its length last."""
    expected = {name: array for name, array in measured.items() if name.startswith(f"{way}/")}
    for name in [*actual, *expected]:
        _, step, entry = name.split("/", 2)
        if name not in actual or name not in expected:
            return message(
                "{entry} is logged at step {step} by one of them alone", entry=entry, step=step
            )
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
    sees="anything that a checkpoint forgets and the training remembers",
    blind="a training that is wrong in the same way with and without a stop",
    cost="9: the training twice more",
    passes=lambda _: 9,
    check=check,
    measure=measure,
    kinds=("steps",),
)
