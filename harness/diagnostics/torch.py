"""`torch`: the engine's gradient against PyTorch's, for the same text and the same numbers.

The answer is independent of the engine, so it also holds where forward and backward are wrong
together, and at kinks. There another choice than PyTorch's is let be if it is as good
(`differences.measure_conventions`). That, and how far rounding may go, takes two forward and
backward passes and five forward passes, and some eight more for each kink. It is blind where
PyTorch cannot run the probe's text.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.verdict import Verdict
from harness.diagnostics.comparison import compare_with_library
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.differences import measure_conventions


def check(observation: Observation) -> Verdict:
    """Alarm if the engine's gradient and PyTorch's differ."""
    return compare_with_library(observation, "torch", message("PyTorch gives"))


TORCH = Diagnostic(
    name="torch",
    sees="any gradient that PyTorch would not give, also at kinks and where the forward is wrong",
    blind="what PyTorch lacks; another valid choice at a kink",
    cost="14, and PyTorch once a probe",
    passes=lambda _: 14,
    check=check,
    measure=measure_conventions,
    library="torch",
)
