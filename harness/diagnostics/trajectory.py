"""`trajectory`: the log of a training run against PyTorch's log of the same program, step by step.

The first step at which the two differ shows when it went wrong; the entry shows where.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.message import Message, message, verbatim
from harness.core.rounding import agree, largest
from harness.core.run import GRAD, Array, NumericArray, array_name
from harness.core.vocabulary import Alarm, Declined, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation, as_distinct

KEPT_DIGITS = 0.4
"""The share of a dtype's digits in which two logs must agree: 5e-7 in float64, 2e-3 in float32.

Rounding alone would allow more. But two correct optimizers also differ in conventions, such as the
1e-6 that PyTorch adds to a norm before dividing by it, and errors carry over to later steps.
"""

IDENTITY = "_error"
"""A key with this ending is the error of an identity, hence rounding: it is not compared."""

Snapshots = Sequence[dict[str, Array]]


def check(observation: Observation) -> Verdict:
    """Alarm at the first step at which the logs differ, with the first entry that differs."""
    answer = observation.independent["torch"]
    assert not isinstance(answer, Skipped)
    verdict = compare_logs(observation.run.log, answer.log)
    leaves = _common(observation.run.leaf_log, answer.leaf_log)
    if not isinstance(verdict, Silent) or not any(leaves[0]):
        return verdict
    of_leaves = compare_logs(*leaves)
    if not isinstance(of_leaves, Silent):
        return of_leaves if isinstance(of_leaves, Alarm) else verdict
    deviation = max(verdict.deviation or 0.0, of_leaves.deviation or 0.0)
    return Silent(verdict.compared + of_leaves.compared, deviation)


def _common(actual: Snapshots, expected: Snapshots) -> tuple[Snapshots, Snapshots]:
    """Return what can be compared of the leaves, and of their gradients.

    These are the leaves that have the same name and the same values at first: PyTorch draws other
    initial weights, and some of its layers store theirs in another form. A leaf without a gradient
    of such a layer is compared too. A missing gradient equals one of zeros.
    """
    first = dict[str, bool]()
    for own, theirs in zip(actual, expected, strict=False):
        for name in own.keys() & theirs.keys():
            first.setdefault(name, agree(own[name].numpy(), theirs[name].numpy()))
    same = {name for name, is_same in first.items() if is_same and not name.endswith(GRAD)}
    layers = {name.rpartition(".")[0] for name in same} - {""}
    pairs = []
    for own, theirs in zip(actual, expected, strict=False):
        names = {
            name
            for name in own.keys() | theirs.keys()
            if name.removesuffix(GRAD) in same
            or (name not in own and name.removesuffix(GRAD).rpartition(".")[0] in layers)
        }
        names = {n for n in names if (n in own and n in theirs) or _is_wrong_alone(n, own, theirs)}
        pairs.append([{n: part[n] for n in part if n in names} for part in (own, theirs)])
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _is_wrong_alone(name: str, *snapshots: Mapping[str, Array]) -> bool:
    """Whether only one of two snapshots has a gradient, which is not 0."""
    arrays = [snapshot[name].numpy() for snapshot in snapshots if name in snapshot]
    return name.endswith(GRAD) and any(array.any() for array in arrays)


def compare_logs(actual_log: Snapshots, expected_log: Snapshots) -> Verdict:
    """Alarm if a log differs from PyTorch's: in shape, then in value."""
    epsilon = _coarsest(actual_log)
    scales: dict[str, float] = {}
    compared, deviations = 0, [0.0]
    for step, (actuals, expecteds) in enumerate(zip(actual_log, expected_log, strict=False)):
        if actuals.keys() != expecteds.keys():
            return Alarm(
                message(
                    "step {step} logs {actual}, PyTorch logs {expected}",
                    step=step,
                    actual=_names(actuals),
                    expected=_names(expecteds),
                )
            )
        tolerance = epsilon**KEPT_DIGITS * (1 + step) ** 0.5  # errors add up like a random walk
        for key in expecteds:
            if actuals[key].shape != expecteds[key].shape:
                return Alarm(
                    message(
                        "at step {step}, {entry} has shape {actual}, PyTorch's has {expected}",
                        step=step,
                        entry=array_name(key),
                        actual=actuals[key].shape,
                        expected=expecteds[key].shape,
                    )
                )
        for key in expecteds:
            if key.endswith(IDENTITY):
                continue
            actual, expected = actuals[key].numpy(), expecteds[key].numpy()
            scales[key] = max(scales.get(key, 0.0), largest(expected))
            deviations.append(_deviation(actual, expected, scales[key]))
            if deviations[-1] > tolerance:
                return Alarm(_difference(step, key, actual, expected), deviations[-1])
            compared += int((~np.isnan(expected)).sum())
    if len(actual_log) != len(expected_log):
        return Alarm(
            message(
                "{actual} steps are logged, PyTorch logs {expected}",
                actual=len(actual_log),
                expected=len(expected_log),
            )
        )
    if not compared:
        return Declined(message("there is no number in the log to compare"))
    return Silent(compared, max(deviations))


def _coarsest(log: Snapshots) -> float:
    """Return the resolution of the coarsest floats in a log, which limits its precision."""
    dtypes = [np.dtype(array.dtype) for snapshot in log for array in snapshot.values()]
    return max((float(np.finfo(d).eps) for d in dtypes if d.kind == "f"), default=2.0**-52)


def _deviation(actual: NumericArray, expected: NumericArray, scale: float) -> float:
    """Return the error relative to the key's largest value so far; integers must be equal.

    NaN equals NaN, since a probe may compute it, and then PyTorch does too; otherwise the error is
    infinite.
    """
    if np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f"):
        return 0.0
    if expected.dtype.kind != "f" or scale == 0:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = np.abs(actual.astype(float) - expected.astype(float)) / scale
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    worst = float(np.where(same, 0.0, apart).max())
    return math.inf if math.isnan(worst) else worst


def _difference(step: int, entry: str, actual: NumericArray, expected: NumericArray) -> Message:
    if expected.size == 1:
        texts = as_distinct(actual.item(), expected.item())
        return message(
            "at step {step}, {entry} is {actual}, PyTorch's is {expected}",
            step=step,
            entry=array_name(entry),
            actual=texts[0],
            expected=texts[1],
        )
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(float) - expected.astype(float))
    return message(
        "at step {step}, {entry} differs from PyTorch's by up to {error}",
        step=step,
        entry=array_name(entry),
        error=f"{np.nanmax(error):.3g}" if np.isfinite(error).any() else "NaN",
    )


def _names(snapshot: dict[str, Array]) -> Message:
    return verbatim(", ".join(snapshot)) if snapshot else message("nothing")


TRAJECTORY = Diagnostic(
    name="trajectory",
    sees="a training run whose log differs from PyTorch's, and the first step at which it does",
    blind="features that PyTorch lacks; conventions and precision below the tolerance",
    cost="3, and one run of PyTorch per probe",
    passes=lambda _: 3,
    check=check,
    library="torch",
    kinds=("steps",),
)
