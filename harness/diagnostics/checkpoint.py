"""`checkpoint`: a training that stops and goes on from what it saved is one that never stopped.

Bit for bit: whatever a checkpoint forgets (moments, a step count, a generator, running statistics)
shows in the log, and rounding is the same on both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

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
    """A log as one table, so that it travels as what was measured."""
    return {
        f"{way}/{step}/{key}": seen
        for step, snapshot in enumerate(log)
        for key, seen in snapshot.items()
    }


def check(observation: Observation) -> Verdict:
    """Alarm at the first step and key at which the logs part."""
    run, values = observation.run, observation.run.measured["checkpoint"].values
    if difference := _first_difference(_flat(AGAIN, run.log), values, AGAIN):
        return Alarm(f"the same training twice gives two logs: {difference}")
    if difference := _first_difference(_flat(STRAIGHT, run.log), values, STRAIGHT):
        at = observation.probe.resume_at
        return Alarm(
            f"resumed at step {at}, it is not the training that never stopped: {difference}"
        )
    return Silent(len(values)) if values else Skipped("there is nothing in the log to compare")


def _first_difference(
    mine: Mapping[str, Array], measured: Mapping[str, Array], way: str
) -> str | None:
    """In the order of the log, its length last."""
    theirs = {name: seen for name, seen in measured.items() if name.startswith(f"{way}/")}
    for name in [*mine, *theirs]:
        _, step, key = name.split("/", 2)
        if name not in mine or name not in theirs:
            return f"{key} is logged at step {step} by one of them alone"
        if not _same(mine[name], theirs[name]):
            return f"{key} at step {step} {_apart(mine[name], theirs[name])}"
    return None


def _same(mine: Array, theirs: Array) -> bool:
    """Bit for bit, dtype and shape included; so NaN equals itself."""
    return mine == theirs


def _apart(mine: Array, theirs: Array) -> str:
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return f"is {mine.dtype} {mine.shape} and {theirs.dtype} {theirs.shape}"
    with np.errstate(invalid="ignore"):
        error = np.abs(mine.numpy().astype(float) - theirs.numpy().astype(float))
    finite = error[np.isfinite(error)]
    return f"parts by up to {finite.max():.3g}" if finite.any() else "parts by NaN"


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
