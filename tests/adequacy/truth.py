"""Which mutants are wrong: gradients against central differences, written for this alone.

A case is a program on minigrad and the arrays of its leaves. The forward pass of a mutant is the
clean one, so the differences of all cases are computed once.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

import minigrad

Array = NDArray[np.float64]
Program = Callable[..., Any]

STEP = 1e-5
TOLERANCE = 1e-6
"""Relative to the largest entry; the differences are exact to about 1e-9."""

SAMPLES = 60
RADIUS = 1e-3
"""How many points near a kink are taken, and how near."""
NEAR = 1e-2
"""The tolerance there, as slopes differ within the radius."""


@dataclass(frozen=True)
class Case:
    """A program on tensors, and the values of its leaves."""

    name: str
    program: Program
    leaves: tuple[Array, ...]
    kink: bool = False
    """Whether the derivative is not unique: then any convex combination of those nearby counts."""


@dataclass(frozen=True)
class Answer:
    """What is right for a case."""

    case: Case
    cotangent: Array
    gradients: Array
    """All leaves in a row; at a kink, one row for each point nearby."""

    def is_right(self) -> bool:
        """Whether the engine as it is now returns right gradients."""
        try:
            with _quiet():
                found = _gradients(self.case, self.cotangent)
        except Exception:
            return False
        shapes = [leaf.shape for leaf in self.case.leaves]
        if [gradient.shape for gradient in found] != shapes:
            return False
        flat = _flat(found)
        if self.case.kink:
            return _is_convex_combination(flat, self.gradients)
        return _is_near(flat, self.gradients)


def answer(case: Case) -> Answer:
    """Compute the differences of a case."""
    with _quiet():
        return _answer(case)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings: a mutant may divide by 0, and so does the mean of nothing."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _answer(case: Case) -> Answer:
    rng = np.random.default_rng(len(case.name))
    cotangent = rng.standard_normal(_value(case, case.leaves).shape)
    if not case.kink:
        return Answer(case, cotangent, _differences(case, case.leaves, cotangent))
    rows = []
    for _ in range(SAMPLES):
        moved = [leaf + RADIUS * rng.uniform(-1, 1, leaf.shape) for leaf in case.leaves]
        rows.append(_differences(case, moved, cotangent, STEP / 100))
    return Answer(case, cotangent, np.array(rows))


def wrong_cases(answers: Iterable[Answer]) -> list[str]:
    """Return the names of the cases on which the engine as it is now is wrong."""
    return [item.case.name for item in answers if not item.is_right()]


def _value(case: Case, leaves: Sequence[Array]) -> Array:
    value: Array = case.program(*[minigrad.Tensor(leaf) for leaf in leaves]).data
    return value


def _gradients(case: Case, cotangent: Array) -> list[Array]:
    """The engine's gradients; zeros for a leaf that got none."""
    leaves = [minigrad.Tensor(leaf, requires_grad=True) for leaf in case.leaves]
    case.program(*leaves).backward(cotangent.copy())
    return [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad for leaf in leaves]


def _differences(
    case: Case, leaves: Sequence[Array], cotangent: Array, step: float = STEP
) -> Array:
    """The slopes of the weighted sum of the value, by central differences."""
    slopes = []
    for position, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            sides = []
            for sign in (1, -1):
                moved = [other.copy() for other in leaves]
                moved[position][index] += sign * step
                sides.append((cotangent * _value(case, moved)).sum())
            slopes.append((sides[0] - sides[1]) / (2 * step))
    return np.array(slopes)


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


def _is_near(found: Array, expected: Array) -> bool:
    size = np.abs(expected).max(initial=1.0)
    return bool(np.isfinite(found).all() and (np.abs(found - expected) <= TOLERANCE * size).all())


def _is_convex_combination(found: Array, rows: Array) -> bool:
    """Whether non-negative weights that sum to 1 make `found` of the rows."""
    if not np.isfinite(found).all():
        return False
    size = np.abs(rows).max(initial=1.0)
    system = np.vstack([rows.T / size, 10 * np.ones(len(rows))])
    _, rest = nnls(system, np.append(found / size, 10.0))
    return bool(rest <= NEAR)
