"""`torch`: the engine's gradient against PyTorch's, for the same text and the same numbers.

PyTorch is independent of the engine, so this also works if forward and backward are wrong together,
and at kinks. There, a choice other than PyTorch's is accepted if it is valid
(`differences.measure_conventions`). That, and estimating the rounding error, takes three forward
and backward passes and five forward passes, and about eight more for each kink. It does not apply
to probes that PyTorch cannot run.
"""

from __future__ import annotations

from harness.core.measurement import MeasurementForm, Quantity
from harness.core.message import message
from harness.core.vocabulary import Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, compare_with_library
from harness.diagnostics.differences import measure_conventions


def check(observation: Observation) -> Verdict:
    """Alarm if the engine's gradient and PyTorch's differ."""
    return compare_with_library(observation, "torch", message("PyTorch gives"))


TORCH = Diagnostic(
    name="torch",
    sees="any gradient that differs from PyTorch's, even at kinks or if the forward pass is wrong",
    blind="probes that PyTorch cannot run; another valid choice at a kink",
    cost="17, and one run of PyTorch per probe",
    passes=lambda _: 17,
    check=check,
    measure=measure_conventions,
    form=MeasurementForm((Quantity("{leaf}"),)),
    library="torch",
)
