"""`purity`: a run changes only gradients, and the same leaves give the same output again.

The leaves and the cotangent keep their values, nothing is drawn from NumPy's global generator, and
a second forward pass agrees with the first one. (Up to rounding: a linear algebra library may sum
in another order if an array lies elsewhere in memory.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.run import NUMERIC, Measured, NumericArray, Run, own_name, pack
from harness.core.vocabulary import Alarm, Declined, Verdict
from harness.diagnostics.diagnostic import ArrayPair, Diagnostic, Observation, compare_in

if TYPE_CHECKING:
    from harness.runs.trial import Trial


def measure(trial: Trial, run: Run) -> Measured:
    """Measure the output of a second forward pass."""
    values = run.values()
    return Measured({"output": pack(trial.output(values))})


def check(observation: Observation) -> Verdict:
    """Alarm if anything was changed or drawn, or is different the second time."""
    run = observation.run
    assert run.output is not None
    for name, after in run.mutated.items():
        before = run.leaves.get(name, run.cotangent)
        if before and _is_changed(before.numpy(), after.numpy()):
            return Alarm(message("the run changed {name}", name=own_name(name)))
    if run.generator_moved:
        return Alarm(message("the run drew from NumPy's global generator"))
    again, output = run.measured["purity"].values["output"].numpy(), run.output.numpy()
    if output.size and np.isnan(output).all():
        return Declined(message("the output is NaN"))
    pair = ArrayPair(message("the second output"), again, output)
    return compare_in(run, [pair], message("the first"))


def _is_changed(before: NumericArray, after: NumericArray) -> bool:
    """Whether it changed by more than the rounding of the engine's own dtype."""
    return not np.array_equal(before.astype(after.dtype), after, equal_nan=True)


PURITY = Diagnostic(
    name="purity",
    sees="inputs that the run changes, global randomness, an output that depends on earlier runs",
    blind="errors that are the same in every run and change no input",
    cost="4",
    passes=lambda _: 4,
    check=check,
    measure=measure,
    form=MeasurementForm((Quantity("output", "any", NUMERIC),)),
)
