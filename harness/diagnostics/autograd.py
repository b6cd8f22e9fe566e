"""`autograd`: the engine's gradient against HIPS autograd's, for the same text and numbers.

As `torch`, with another library: one that keeps NumPy's rules of broadcasting, and that is
installed in seconds. It declines at kinks, so that no choice raises an alarm here. How far
rounding may go takes two forward and backward passes.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.verdict import Verdict
from harness.diagnostics.comparison import compare_with_library
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.rounding import measure_noise


def check(observation: Observation) -> Verdict:
    """Alarm if the engine's gradient and that of HIPS autograd differ."""
    return compare_with_library(observation, "autograd", message("HIPS autograd gives"))


AUTOGRAD = Diagnostic(
    name="autograd",
    sees="any gradient that HIPS autograd would not give, also where the forward is wrong",
    blind="kinks; what HIPS autograd lacks",
    cost="9, and HIPS autograd once a probe",
    passes=lambda _: 9,
    check=check,
    measure=measure_noise,
    library="autograd",
)
