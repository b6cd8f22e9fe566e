"""Comparing numbers that ought to be equal: shape, then value, strictly. Dtypes are `dtype`'s.

How close is close enough depends on the coarser of the two dtypes (an engine that computes in
float32 is right within float32's digits) and on the size of what was summed. Two things are let
pass as rounding:

- half of the digits, `sqrt(eps)` relative: 1.5e-8 for float64, 3.5e-4 for float32;
- where terms cancel, `64 sqrt(n) eps` of the largest number, for n numbers in the leaves and the
  output: n rounding errors of either sign add up to some sqrt(n) of them (Higham, Accuracy and
  Stability of Numerical Algorithms, section 2.8).

What an ill-conditioned probe needs beyond that is measured (`rounding`) and comes as slack. Bugs
deviate by a tenth and more; what decides is the probe, not the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.run import Array, NumericArray, Run
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Observation


@dataclass(frozen=True)
class Pair:
    """What is there and what ought to be there, under the name that a sentence gives it."""

    name: str
    actual: NumericArray
    desired: NumericArray
    slack: NumericArray | float = 0.0
    """What more than rounding may lie between them; infinite: this element is not compared."""

    @property
    def is_compared(self) -> NumericArray:
        """Which elements there is anything to hold to."""
        open_ended = np.broadcast_to(self.slack, self.desired.shape) == np.inf
        return np.asarray(~open_ended & ~np.isnan(self.desired))


@dataclass(frozen=True)
class Scale:
    """What a run's numbers are like, as far as rounding goes."""

    terms: int
    """Numbers in the leaves and the output: no sum in there is much longer."""
    size: float
    """The largest entry of the cotangent, of which everything in a backward pass is made."""

    @classmethod
    def of(cls, run: Run) -> Scale:
        """The scale of a gradient run that ended well."""
        leaves = sum(math.prod(leaf.shape) for leaf in run.leaves.values())
        output = math.prod(run.output.shape) if run.output else 0
        size = _largest(run.cotangent.numpy()) if run.cotangent else 0.0
        return cls(max(leaves + output, 16), max(size, 1.0))


def resolution(*arrays: NumericArray) -> float:
    """The coarsest machine epsilon among them; what is no float counts as a float64."""
    floats = [array.dtype for array in arrays if array.dtype.kind in "fc"]
    return float(max((np.finfo(dtype).eps for dtype in floats), default=np.finfo(float).eps))


def compare(pairs: Iterable[Pair], due: str, scale: Scale, eps: float = 0.0) -> Verdict:
    """Alarm at the first pair that parts; the deviation is the largest of all pairs.

    `due` says whose the desired numbers are ("PyTorch gives"); `eps` is the precision that all was
    computed in, if that is coarser than the pair's own dtypes. NaN equals nothing; an element that
    is due to be NaN is not compared. Skipped where no element was.
    """
    alarm, compared, deviations = "", 0, [0.0]
    for pair in pairs:
        if pair.actual.shape != pair.desired.shape:
            return Alarm(f"{pair.name} is {pair.actual.shape}, {due} {pair.desired.shape}")
        wrong, deviation = _parted(pair, scale, max(eps, resolution(pair.actual, pair.desired)))
        compared += int(pair.is_compared.sum())
        deviations.append(deviation)
        if wrong.any() and not alarm:
            alarm = _say(pair, wrong, due)
    if alarm:
        return Alarm(alarm, max(deviations))
    return Silent(compared, max(deviations)) if compared else Skipped("there is nothing to compare")


def _parted(pair: Pair, scale: Scale, eps: float) -> tuple[NumericArray, float]:
    """Where the pair parts by more than rounding and slack, and its relative deviation."""
    actual, desired = _wide(pair.actual), _wide(pair.desired)
    largest = _largest(desired)
    cancelled = 64 * math.sqrt(scale.terms) * eps * max(largest, scale.size)
    looked_at = pair.is_compared
    slack = np.where(looked_at, pair.slack, 0.0)
    close = np.isclose(actual, desired, rtol=math.sqrt(eps), atol=cancelled + slack)
    with np.errstate(invalid="ignore"):
        error = np.where(actual == desired, 0.0, np.abs(actual - desired))
    error = np.where(np.isnan(error), np.inf, error)[looked_at]
    # Where all that is due may be rounding, it is no scale.
    size = largest if largest > cancelled + slack.max(initial=0.0) else scale.size
    return looked_at & ~close, float(error.max(initial=0.0) / size)


def _wide(array: NumericArray) -> NumericArray:
    """In float64, so that no comparison rounds or truncates one side to the dtype of the other."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(array: NumericArray) -> float:
    finite = np.abs(_wide(array)[np.isfinite(_wide(array))])
    return float(finite.max()) if finite.size else 0.0


def _say(pair: Pair, wrong: NumericArray, due: str) -> str:
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f"[{', '.join(map(str, first))}]" if first else ""
    many = f" ({int(wrong.sum())} of {wrong.size} are wrong)" if wrong.size > 1 else ""
    return f"{pair.name}{at} is {pair.actual[first]:.6g}, {due} {pair.desired[first]:.6g}{many}"


def compare_gradients(
    run: Run,
    answers: Mapping[str, Array | None],
    due: str,
    slack: Mapping[str, NumericArray] | None = None,
) -> Verdict:
    """Compare a run's gradients with somebody else's answer, leaf by leaf.

    No gradient at all and a gradient of zeros are the same answer.
    """
    pairs = []
    for name, answer in answers.items():
        mine = run.gradients.get(name)
        zeros = np.zeros(run.leaves[name].shape)
        actual = zeros if mine is None else mine.numpy()
        desired = zeros if answer is None else answer.numpy()
        pairs.append(Pair(f"{name}.grad", actual, desired, (slack or {}).get(name, 0.0)))
    eps = resolution(run.output.numpy()) if run.output else 0.0
    return compare(pairs, due, Scale.of(run), eps)


def compare_with_library(observation: Observation, diagnostic: str, due: str) -> Verdict:
    """Compare the run's gradients with those of the library that has the diagnostic's name.

    What was measured under that name is the slack: rounding, and at kinks the libraries' choices.
    """
    answer = observation.independent[diagnostic]
    assert not isinstance(answer, Skipped)
    measured = observation.run.measured[diagnostic].values
    slack = {name: array.numpy() for name, array in measured.items()}
    verdict = compare_gradients(observation.run, answer.gradients, due, slack)
    if isinstance(verdict, Skipped):
        return Skipped("every element is at a kink, where libraries differ by right")
    return verdict
