"""The rounding error of a run's numbers, measured on the engine itself.

Two correct ways of computing the same thing differ by rounding times the problem's condition. If
rows hardly vary, or far from zero, that is many times the last digit, so a fixed tolerance would
reject one of the two. The condition is measured: all leaves are moved by about sqrt(eps) of their
size, and the resulting change is scaled down by sqrt(eps), to a move of eps. (A move of eps itself
would show the rounding of the engine's own formula, and an unstable formula is a bug.) Terms that
cancel for one cotangent do not cancel for a random one, so gradients are computed for a random one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from harness.core.run import Array, Measured, NumericArray, Run, pack
from harness.diagnostics.comparison import resolution
from harness.runs.trial import Trial

UNITS = 64
"""Rounding errors of a whole computation, in units of one rounding of its leaves."""


def precision(trial: Trial, run: Run) -> float:
    """Return the coarsest machine epsilon of the leaves (passed and stored) and the output."""
    leaves = run.values()
    stored = trial.stored(leaves).values()
    return resolution(*leaves.values(), *stored, *([run.output.numpy()] if run.output else []))


def gradient_noise(trial: Trial, run: Run) -> dict[str, float]:
    """Return the rounding error of each leaf's gradient: two forward and backward passes."""
    assert run.output is not None
    eps, rng = precision(trial, run), np.random.default_rng(0)
    cotangent = rng.standard_normal(run.output.shape)
    here, there = (
        trial.gradients(values, cotangent)[1] for values in (run.values(), _nudged(run, eps))
    )
    return {name: _noise(here[name], there[name], eps) for name in run.leaves}


def output_noise(trial: Trial, run: Run) -> float:
    """Return the rounding error of an entry of the output: one forward pass."""
    assert run.output is not None
    eps = precision(trial, run)
    return _noise(run.output.numpy(), trial.output(_nudged(run, eps)), eps)


def measure_noise(trial: Trial, run: Run) -> Measured:
    """Measure `gradient_noise`: a 0-d array for each leaf."""
    return Measured(pack_noise(gradient_noise(trial, run)))


def pack_noise(noise: Mapping[str, float]) -> dict[str, Array]:
    """Return noise in the form that is sent."""
    return {name: pack(np.float64(size)) for name, size in noise.items()}


def _nudged(run: Run, eps: float) -> dict[str, NumericArray]:
    """Return the leaves, each element moved by up to sqrt(eps) of itself; zeros stay."""
    rng = np.random.default_rng(1)
    return {
        name: (leaf * (1 + math.sqrt(eps) * rng.uniform(-1, 1, leaf.shape))).astype(leaf.dtype)
        for name, leaf in ((name, leaf.numpy()) for name, leaf in run.leaves.items())
    }


def _noise(here: NumericArray | None, there: NumericArray | None, eps: float) -> float:
    if here is None or there is None or here.shape != there.shape:
        return 0.0
    here, there = here.astype(np.float64), there.astype(np.float64)
    both = np.isfinite(here) & np.isfinite(there)
    moved, size = np.abs(there - here)[both], np.abs(here)[both]
    return UNITS * float(math.sqrt(eps) * moved.max(initial=0) + eps * size.max(initial=0))
