"""`autograd`: the engine's gradient against HIPS autograd's, for the same text and numbers.

Like `torch`, with another library, which follows NumPy's rules of broadcasting and installs in
seconds. It skips kinks, so that no choice there raises an alarm. Estimating the rounding error
takes three forward and backward passes.
"""

from __future__ import annotations

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.vocabulary import Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, compare_with_library
from harness.diagnostics.differences import measure_noise


def check(observation: Observation) -> Verdict:
    """Alarm if the engine's gradient and that of HIPS autograd differ."""
    return compare_with_library(observation, "autograd", message("HIPS autograd gives"))


AUTOGRAD = Diagnostic(
    name="autograd",
    sees="any gradient that differs from HIPS autograd's, even if the forward pass is wrong too",
    blind="kinks; probes that HIPS autograd cannot run",
    cost="12, and one run of HIPS autograd per probe",
    passes=lambda _: 12,
    check=check,
    measure=measure_noise,
    form=MeasurementForm((Quantity("{leaf}", ""),)),
    library="autograd",
)
