"""`torch`: the engine's gradient against PyTorch's, for the same text and the same numbers."""

from __future__ import annotations

from harness.diagnostics.comparison import compare_gradients
from harness.diagnostics.verdict import Diagnostic, Observation, Skipped, Verdict


def check(observation: Observation) -> Verdict:
    """Alarm where the engine's gradient and PyTorch's part."""
    answer = observation.independent["torch"]
    assert not isinstance(answer, Skipped)
    return compare_gradients(observation.run, answer.gradients, "PyTorch", rtol=1e-7, atol=1e-10)


TORCH = Diagnostic(
    name="torch",
    sees="any gradient that PyTorch would not give, also at kinks and where the forward is wrong",
    blind="what PyTorch lacks or does by another convention",
    cost="1, and PyTorch once a probe",
    passes=lambda _: 3,
    check=check,
    library="torch",
)
