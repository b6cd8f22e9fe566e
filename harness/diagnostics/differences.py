"""Slopes and rounding of the engine's own forward pass, measured in the child process.

A slope is measured along a direction, at the step h = cbrt(eps), which balances what the third
derivative adds (h^2) against rounding (eps/h) (Press et al., Numerical Recipes, section 5.7). `eps`
is that of the coarsest dtype involved: an engine that computes in float32 needs h = 0.005, and a
step for float64 would only measure its rounding. Directions are scaled by max(1, |x|).

A slope that matters is measured again at h/10. For a smooth function the two one-sided slopes
differ by h f'', so by ten times less at h/10; at a kink the difference stays the same. That
distinguishes curvature from kinks. The difference of the two central differences bounds
the effect of curvature on the first one, which is less affected by rounding. So a rough function
widens the tolerance instead of raising an alarm.

One kind of kink cannot be detected: where the kinks of two parts cancel, as in `relu(x) - relu(-x)`
at 0, the function is smooth, but no engine's gradient is its derivative.

The rounding error of a run is measured in the same way. Two correct ways of computing the same
thing differ by rounding times the problem's condition. If rows hardly vary, or far from zero, that
is many times the last digit, so a fixed tolerance would reject one of the two. The condition is
measured: all leaves are moved by about sqrt(eps) of their size, and the change is divided by
sqrt(eps). (A move of eps itself would show the rounding of the engine's own formula, and an
unstable formula is a bug.) They are moved again by an eighth of that: an entry that still changes
by more than half as much is at a kink, and says nothing about the condition of the others. Terms
that cancel for one cotangent do not cancel for a random one, so gradients are computed for a random
one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.core.rounding import agree, largest, rounding
from harness.core.run import Array, Measured, NumericArray, Run, pack
from harness.diagnostics.diagnostic import Scale

if TYPE_CHECKING:
    from harness.runs.trial import Trial

Vector = NDArray[np.float64]

MOST_SLOPES = 100
"""The number of slopes that the search for kinks may measure."""

SHORTER = 8
"""The first move of the leaves, divided by the second."""


@dataclass(frozen=True)
class Slope:
    """How the loss changes along a direction."""

    value: float
    """By central differences: the change of the loss per unit of the direction."""
    error: float
    """The error that rounding and curvature may cause; infinite at a kink."""
    low: float
    high: float
    """The bounds on any choice among the one-sided slopes, output by output."""
    steep: bool
    """Whether the one-sided slopes grow without bound, or the output becomes non-finite."""

    @property
    def kinked(self) -> bool:
        """Whether the slope is not unique here."""
        return math.isinf(self.error)


class Surroundings:
    """The engine's forward pass at and around the leaves of a run.

    All leaves together, or only some, are one flat vector `x`. Raises Unmeasurable, with the
    reason, if slopes do not exist: the diagnostic then declines.
    """

    def __init__(self, trial: Trial, run: Run, only: Collection[str] | None = None) -> None:
        assert run.output is not None
        assert run.cotangent is not None
        self._trial, self._values = trial, run.values()
        chosen = self._values.keys() if only is None else only
        self._leaves = {name: leaf for name, leaf in self._values.items() if name in chosen}
        flat = [leaf.astype(np.float64).ravel() for leaf in self._leaves.values()]
        self.x: Vector = np.concatenate([*flat, np.zeros(0)])
        ends = [0, *np.cumsum([leaf.size for leaf in self._leaves.values()]).tolist()]
        self._places = list(map(slice, ends, ends[1:]))
        self.unit: Vector = np.maximum(1.0, np.abs(self.x))
        """How far each element is moved for a step of 1."""
        eps = trial.precision(run)
        self.step, self._relative = math.cbrt(eps), rounding(Scale.of(run).terms, eps)
        self._cotangent: Vector = run.cotangent.numpy().astype(np.float64)
        self._here: Vector = run.output.numpy().astype(np.float64)
        self._check(run.output.numpy())

    def _check(self, output: NumericArray) -> None:
        if not self.x.size:
            raise Unmeasurable("the leaves hold no elements")
        for name, leaf in self._leaves.items():
            if leaf.dtype.kind != "f":
                raise Unmeasurable(f"{name} is {leaf.dtype}, which has no slopes")
        if output.dtype.kind != "f":
            raise Unmeasurable(f"the output is {output.dtype}, which has no slopes")
        if not np.isfinite(output).all():
            raise Unmeasurable("the output is not finite, so it has no slopes")
        if not agree(self._at(np.zeros_like(self.x), 0.0), output, self._relative):
            raise Unmeasurable("the same leaves give a different output the second time")

    def split(self, vector: Vector) -> dict[str, NumericArray]:
        """Split a flat vector into arrays with the names and shapes of the leaves."""
        pieces = zip(self._leaves.items(), self._places, strict=True)
        return {name: vector[place].reshape(leaf.shape) for (name, leaf), place in pieces}

    def fill(self, numbers: Mapping[str, float]) -> Vector:
        """Return a flat vector with the same number for all elements of a leaf."""
        return np.concatenate([np.full(x.size, numbers[name]) for name, x in self._leaves.items()])

    def gradient(self, run: Run) -> Vector | None:
        """Return the run's gradients as one flat vector; None if one has another shape than its
        leaf.

        A missing gradient counts as zeros.
        """
        parts = [np.zeros(0)]
        for name, leaf in self._leaves.items():
            gradient = run.gradients.get(name)
            if gradient is not None and gradient.shape != leaf.shape:
                return None
            parts.append(np.zeros(leaf.size) if gradient is None else gradient.numpy().ravel())
        return np.concatenate(parts).astype(np.float64)

    def one(self, index: int) -> Vector:
        """Return the direction that moves only one element of `x`."""
        direction = np.zeros_like(self.x)
        direction[index] = self.unit[index]
        return direction

    def anywhere(self) -> Vector:
        """Return a fixed random direction that moves every element by half a step to a step."""
        rng = np.random.default_rng(self.x.size)
        lengths = rng.uniform(0.5, 1.0, self.x.size)
        return np.asarray(self.unit * lengths * rng.choice([-1.0, 1.0], self.x.size))

    def slope(
        self, direction: Vector, claimed: float | None = None, size: float | None = None
    ) -> Slope:
        """Return the slope along a direction: 2 forward passes, and 2 more unless it is as
        `claimed`.

        `size` is the sum of the absolute values of the claim's terms, by default of the claim
        itself.
        """
        above, below = self._at(direction, self.step), self._at(direction, -self.step)
        value = self._weigh(above - below) / (2 * self.step)
        if claimed is None or not math.isfinite(claimed):
            return self._look_closer(direction, above, below, abs(value))
        size = abs(claimed) if size is None else size
        error = self._rounding(size, self.step) + 64 * self.step**2 * size
        if abs(value - claimed) <= error:
            return Slope(value, error, value, value, steep=False)
        return self._look_closer(direction, above, below, size)

    def _look_closer(self, direction: Vector, above: Vector, below: Vector, size: float) -> Slope:
        h, c, here = self.step, self._cotangent, self._here
        wide = (here - below) / h, (above - here) / h
        above, below = self._at(direction, h / 10), self._at(direction, -h / 10)
        near = (here - below) / (h / 10), (above - here) / (h / 10)
        if not all(np.isfinite(side).all() for side in (*wide, *near)):
            return Slope(math.nan, math.inf, -math.inf, math.inf, steep=True)
        values = [float(np.sum(c * (left + right))) / 2 for left, right in (wide, near)]
        drift = sum(np.sum(np.abs(c * (w - n))) for w, n in zip(wide, near, strict=True))
        rounding = self._rounding(size, h / 10)
        largest = max(_largest(wide), _largest(near))
        kinked = self._has_kink(wide[1] - wide[0], near[1] - near[0], largest)
        return Slope(
            value=values[0],
            error=math.inf if kinked else self._rounding(size, h) + 2 * abs(values[0] - values[1]),
            low=float(np.sum(np.minimum(c * near[0], c * near[1])) - rounding - drift),
            high=float(np.sum(np.maximum(c * near[0], c * near[1])) + rounding + drift),
            steep=_largest(near) > 2 * _largest(wide),
        )

    def _has_kink(self, wide: Vector, near: Vector, slope: float) -> bool:
        """Whether the bends at h and h/10 are not as 10 to 1 in any element of the output."""
        # The change of the output is divided by h/10, and the bend at h/10 multiplied by 10.
        size = np.abs(self._here).max(initial=0.0) + slope
        noise = 100 * self._relative * size / self.step
        return bool((np.abs(wide - 10 * near) > noise + 0.1 * np.abs(wide)).any())

    def _rounding(self, size: float, step: float) -> float:
        """Return what rounding may add to a slope: the norm of the outputs' independent errors.

        The leaves are also rounded, which changes the loss by eps times `size`.
        """
        terms = np.linalg.norm((self._here * self._cotangent).ravel())
        return self._relative * (float(terms) + size) / step

    def _weigh(self, change: Vector) -> float:
        return float(np.sum(change * self._cotangent))

    def _at(self, direction: Vector, t: float) -> Vector:
        """Return the output at `x + t * direction`; NaN if it has another shape there."""
        moved = {
            name: value.astype(self._leaves[name].dtype)
            for name, value in self.split(self.x + t * direction).items()
        }
        output = self._trial.output({**self._values, **moved})
        if output.shape != self._here.shape:
            return np.full_like(self._here, np.nan)
        return output.astype(np.float64)

    def kinks(self) -> list[int] | None:
        """Return the elements of `x` that are at a kink; None if there are too many to find.

        All elements are moved at once, and any group with a kink is split in half, recursively.
        """
        generic, kinked, left = self.anywhere(), list[int](), MOST_SLOPES
        waiting = [np.arange(self.x.size)]
        while waiting:
            elements = waiting.pop()
            left -= 1
            if left < 0:
                return None
            direction = np.zeros_like(self.x)
            direction[elements] = generic[elements]
            if not self.slope(direction).kinked:
                continue
            if elements.size == 1:
                kinked.append(int(elements[0]))
            else:
                waiting += np.array_split(elements, 2)
        return sorted(kinked)


def _largest(slopes: tuple[Vector, Vector]) -> float:
    return max(float(np.abs(side).max(initial=0.0)) for side in slopes)


class Unmeasurable(Exception):
    """Slopes cannot be measured, for this reason."""


def measure_conventions(trial: Trial, run: Run) -> Measured:
    """Measure, for each leaf, how far a correct gradient may lie from the engine's.

    That is the rounding error, but unlimited if the derivative is not unique and the engine's
    choice is valid: the element is at a kink; its gradient lies between the one-sided slopes; and
    so does the gradient along the direction in which all elements at kinks rise together. (If two
    elements tie for a maximum and both get the whole gradient, that sum is twice too large.)
    """
    sizes = gradient_noise(trial, run).items()
    noise = {name: pack(np.full(run.leaves[name].shape, size)) for name, size in sizes}
    try:
        around = Surroundings(trial, run)
    except Unmeasurable:
        return Measured(noise)
    gradient, kinks = around.gradient(run), around.kinks()
    if kinks is None:
        return Measured(problem="too many elements are at kinks, where libraries may differ")
    if gradient is None or not kinks:
        return Measured(noise)
    free: Vector = np.zeros_like(around.x)
    together = np.zeros_like(around.x)
    together[kinks] = around.unit[kinks].max()
    if _is_between(around, together, gradient):
        for index in kinks:
            free[index] = np.inf if _is_between(around, around.one(index), gradient) else 0.0
    parts = around.split(free).items()
    return Measured({name: pack(part + noise[name].numpy()) for name, part in parts})


def _is_between(around: Surroundings, direction: Vector, gradient: Vector) -> bool:
    slope = around.slope(direction)
    return slope.low <= float(gradient @ direction) <= slope.high


# ----- Rounding -----


def gradient_noise(trial: Trial, run: Run) -> dict[str, float]:
    """Return the rounding error of each leaf's gradient: three forward and backward passes."""
    assert run.output is not None
    cotangent = np.random.default_rng(0).standard_normal(run.output.shape)
    eps, terms = trial.precision(run), Scale.of(run).terms
    gradients = [trial.gradients(values, cotangent)[1] for values in _nudged(run, eps)]
    return {name: _noise([g[name] for g in gradients], eps, terms) for name in run.leaves}


def output_noise(trial: Trial, run: Run) -> float:
    """Return the rounding error of an entry of the output: two forward passes."""
    eps, terms = trial.precision(run), Scale.of(run).terms
    return _noise([trial.output(values) for values in _nudged(run, eps)], eps, terms)


def measure_noise(trial: Trial, run: Run) -> Measured:
    """Measure `gradient_noise`: a 0-d array for each leaf."""
    return Measured(pack_noise(gradient_noise(trial, run)))


def pack_noise(noise: Mapping[str, float]) -> dict[str, Array]:
    """Return noise in the form that is sent."""
    return {name: pack(np.float64(size)) for name, size in noise.items()}


def _nudged(run: Run, eps: float) -> Iterator[dict[str, NumericArray]]:
    """Yield the leaves, and then the leaves with each element moved: a large and a small move.

    The large move is up to sqrt(eps) of the element, so zeros stay.
    """
    rng = np.random.default_rng(1)
    moves = {name: rng.uniform(-1, 1, leaf.shape) for name, leaf in run.leaves.items()}
    for size in (0.0, math.sqrt(eps), math.sqrt(eps) / SHORTER):
        yield {
            name: (leaf * (1 + size * moves[name])).astype(leaf.dtype)
            for name, leaf in run.values().items()
        }


def _noise(three: Sequence[NumericArray | None], eps: float, terms: int) -> float:
    """Return the rounding error of an array: that of its terms, and that of the leaves.

    `three` holds the array at the leaves, and after a large and a small move.
    """
    here, there, near = (np.zeros(0) if array is None else array.astype(float) for array in three)
    if not here.shape == there.shape == near.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        far, close = np.abs(there - here), np.abs(near - here)
        smooth = np.isfinite(far) & (close <= far / 2)
    condition = float(far[smooth].max(initial=0.0)) / math.sqrt(eps)
    return rounding(terms, eps) * largest(here) + rounding(1, eps) * condition
