"""Comparing a run's gradients with somebody else's answer: shape, then value, strictly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.diagnostics.verdict import Alarm, Silent, Verdict
from harness.run import Array, NumericArray, Run


def compare_gradients(
    run: Run, answers: Mapping[str, Array | None], whose: str, *, rtol: float, atol: float
) -> Verdict:
    """Alarm at the first leaf whose gradient parts from the answer.

    No gradient at all and a gradient of zeros are the same answer. NaN equals nothing here: a NaN
    in a gradient is an alarm even where both have it.
    """
    compared = 0
    for name, answer in answers.items():
        mine = run.gradients.get(name)
        shape = run.leaves[name].shape
        actual = np.zeros(shape) if mine is None else mine.numpy()
        desired = np.zeros(shape) if answer is None else answer.numpy()
        if actual.shape != desired.shape:
            return Alarm(f"{name}.grad is {actual.shape}, {whose} give {desired.shape}")
        try:
            np.testing.assert_allclose(
                actual, desired.astype(actual.dtype), rtol, atol, equal_nan=False, strict=True
            )
        except AssertionError:
            return Alarm(f"{name}.grad parts from {whose} {_by_how_much(actual, desired)}")
        compared += actual.size
    return Silent(compared) if compared else Alarm("there is no gradient to compare")


def _by_how_much(actual: NumericArray, desired: NumericArray) -> str:
    with np.errstate(invalid="ignore"):
        error = np.abs(actual - desired)
    return f"by up to {np.nanmax(error):.3g}" if np.isfinite(error).any() else "by NaN"
