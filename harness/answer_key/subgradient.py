"""Whether a gradient is a valid subgradient where the derivative is not unique.

At a kink libraries choose, and a choice is not a bug. The unpatched engine's derivatives at nearby
points determine the valid choices: a vector g belongs to Clarke's subdifferential at x if, in every
direction v, g . v lies between the smallest and the largest one-sided directional derivative of
points near x (Clarke, Optimization and Nonsmooth Analysis, 1983, proposition 2.1.2).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.core.run import Array, Measured, Measurement, NumericArray, Run, pack
from harness.runs.trial import Trial

NEARBY = "nearby"
"""The name of this measurement in the answer key."""

MEASUREMENT = Measurement(NEARBY, f"{__name__}:sample_nearby")

POINTS = 24
RADIUS = 1e-5
"""The distance of the nearby points: so near that a smooth derivative is the same up to `SLACK`."""

SLACK = 1e-3
"""How far a directional derivative may leave the interval, relative to the gradient's size."""

DIRECTIONS = 64


def sample_nearby(trial: Trial, run: Run) -> Measured:
    """Return the gradients at points near the leaves; nothing if they all agree, the usual case."""
    assert run.cotangent is not None
    rng = np.random.default_rng(0)
    values = run.values()
    gradients_of: dict[str, list[NumericArray]] = {name: [] for name in values}
    for _ in range(POINTS):
        moved = {name: _move(value, rng) for name, value in values.items()}
        _, gradients = trial.gradients(moved, run.cotangent.numpy())
        for name, gradient in gradients.items():
            gradients_of[name].append(np.zeros_like(values[name]) if gradient is None else gradient)
    sampled = {name: np.stack(several) for name, several in gradients_of.items()}
    smooth = all(_spread(several) <= SLACK * _size(several) for several in sampled.values())
    return Measured() if smooth else Measured({name: pack(s) for name, s in sampled.items()})


def is_subgradient(gradients: Mapping[str, Array | None], key: Run) -> bool:
    """Whether `gradients` are as valid as those of `key`, which were taken at a kink."""
    nearby = key.measured.get(NEARBY, Measured()).values
    if not nearby:
        return False
    sampled = np.hstack([array.numpy().reshape(POINTS, -1) for array in nearby.values()])
    actual = [gradients.get(name) for name in nearby]
    shapes = [array.shape[1:] for array in nearby.values()]
    if any(g is not None and g.shape != shape for g, shape in zip(actual, shapes, strict=True)):
        return False
    flat = [
        np.zeros(int(np.prod(shape))) if g is None else g.numpy().ravel()
        for g, shape in zip(actual, shapes, strict=True)
    ]
    candidate = np.concatenate(flat).astype(np.float64)
    directions = _directions(candidate.size)
    slopes, claimed = sampled @ directions, candidate @ directions
    slack = SLACK * (1.0 + np.abs(sampled).max()) * np.linalg.norm(directions, axis=0)
    above, below = slopes.max(axis=0) + slack, slopes.min(axis=0) - slack
    return bool(((below <= claimed) & (claimed <= above)).all())


def _directions(size: int) -> NumericArray:
    """Return directions as columns: along every axis, along all axes at once, and random ones."""
    drawn = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], (size, DIRECTIONS))
    return np.hstack([np.eye(size), np.ones((size, 1)), drawn])


def _move(value: NumericArray, rng: np.random.Generator) -> NumericArray:
    if value.dtype.kind != "f":
        return value
    return np.asarray(value + RADIUS * rng.uniform(-1.0, 1.0, value.shape), value.dtype)


def _spread(several: NumericArray) -> float:
    return float(np.ptp(several, axis=0).max(initial=0.0))


def _size(several: NumericArray) -> float:
    return float(1.0 + np.abs(several).max(initial=0.0))
