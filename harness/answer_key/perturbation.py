"""Measuring the conditioning of a probe, in the child process: its inputs move, and it runs again.

Inputs are the leaves, and what is drawn from a generator that `numpy.random.default_rng` makes.
Each number is moved up or down by one unit in the last place, at random. Zeros and subnormal
numbers are left alone, since rounding changes a number in proportion to its size, and so are whole
numbers, entries at a kink, and numbers that are written in the probe's body.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.answer_key.tolerances import OUTPUT, STEPS, arrays_of, entries_at_kinks, gradient_name
from harness.core.rounding import FEWEST, largest, resolution, rounding, widened, wrong_entries
from harness.core.run import Array, Measured, NumericArray, Run
from harness.runs.inputs import cotangent_for, draw
from harness.runs.trial import Trial, observe

PATTERNS = 2
"""The number of random patterns of signs. Each takes a run of the probe."""

SLOWEST = 0.5
"""The longest run that is measured, in seconds: each run has a limit of processor time."""


def measure(trial: Trial, run: Run) -> Measured:
    """Measure by how much arrays move, where that is more than rounding explains.

    The numbers are the largest differences in each array, by the array's name; infinite if the
    array has another shape or dtype, is missing, or is not finite where it was. Nothing is measured
    if nothing moves.
    """
    if run.seconds > SLOWEST:
        return Measured(problem="the run takes too long to be repeated")
    if run.generator_moved:
        return Measured(problem="it draws from NumPy's global generator")
    errors = _errors(trial, run, _Scales(run))
    if not errors:
        return Measured()
    # Checked last, since few runs get here.
    scales = _Scales(run, _gradients_of_other_losses(trial, run))
    if scales.movements(observe(trial, run.loss)):
        return Measured(problem="it gives different numbers each time")
    has_slopes = run.cotangent and math.isfinite(errors.get(OUTPUT, 0.0))
    fixed = entries_at_kinks(trial, run) if has_slopes else ()
    return Measured(numbers=_errors(trial, run, scales, fixed))


def _errors(
    trial: Trial, run: Run, scales: _Scales, fixed: Collection[int] = ()
) -> dict[str, float]:
    """Return the largest movement of each array over all patterns; `fixed` entries do not move."""
    errors: dict[str, float] = {}
    for pattern in range(PATTERNS):
        moved = observe(_MovedTrial(trial, pattern, fixed), run.loss)
        for name, error in scales.movements(moved).items():
            errors[name] = max(error, errors.get(name, 0.0))
    return errors


def _gradients_of_other_losses(trial: Trial, run: Run) -> dict[str, float]:
    """Return the largest entry of each gradient under the other losses, as in `outcome.judge`."""
    sizes: dict[str, float] = {}
    if run.output is None:
        return sizes
    for loss in trial.probe.losses:
        cotangent = cotangent_for(trial.probe.name, loss or "weighted", run.output.shape)
        _, gradients = trial.gradients(run.values(), cotangent)
        for leaf, gradient in gradients.items():
            if gradient is not None:
                name = gradient_name(leaf)
                sizes[name] = max(sizes.get(name, 0.0), largest(gradient))
    return sizes


class _Scales:
    """The arrays of a run, and what rounding explains in each of them."""

    def __init__(self, run: Run, sizes: Mapping[str, float] | None = None) -> None:
        self._run, self._sizes = run, sizes or {}
        # Also in an array of a finer dtype, a leaf moves by a unit of its own dtype.
        self._eps = resolution(*run.values().values())

    def movements(self, other: Run) -> dict[str, float]:
        """Return the largest difference in each array that differs beyond rounding."""
        others = {name: array for name, array, _ in arrays_of(other)}
        movements = {
            name: self._movement(name, array, others.get(name), passes)
            for name, array, passes in arrays_of(self._run)
        }
        if len(self._run.log) != len(other.log):
            movements[STEPS] = math.inf
        return {name: error for name, error in movements.items() if error}

    def _movement(self, name: str, array: Array, other: Array | None, passes: int) -> float:
        if array == other:  # most are equal bit for bit
            return 0.0
        if other is None or (array.shape, array.dtype) != (other.shape, other.dtype):
            return math.inf
        values, moved = array.numpy(), other.numpy()
        eps = max(self._eps, resolution(values))
        relative = rounding(max(FEWEST, values.size) * passes, eps)
        if not wrong_entries(moved, values, relative, scale=self._sizes.get(name, 0.0)).any():
            return 0.0
        same = (moved == values) | (np.isnan(moved) & np.isnan(values))
        with np.errstate(all="ignore"):
            difference = np.where(same, 0.0, np.abs(widened(moved) - widened(values)))
        return largest(difference) if np.isfinite(difference).all() else math.inf


class _MovedTrial(Trial):
    """A probe whose inputs are moved by one unit in the last place, in a pattern of signs."""

    def __init__(self, trial: Trial, pattern: int, fixed: Collection[int]) -> None:
        self._pattern = pattern
        values = draw(trial.probe)
        sizes = [leaf.size for leaf in values.values()]
        up = _signs(_DEFAULT_RNG([pattern, 0]), sum(sizes))
        moves = np.ones(len(up), bool)
        moves[[entry for entry in fixed if entry < len(moves)]] = False  # the others are created
        leaves, ends = [], np.cumsum(sizes)
        for leaf, end, size in zip(trial.probe.leaves, ends, sizes, strict=True):
            part, array = slice(end - size, end), values[leaf.name]
            shape = array.shape
            moved = np.where(moves[part].reshape(shape), _moved(array, up[part]), array)
            leaves.append(replace(leaf, shape=None, values=moved.tolist()) if size else leaf)
        vars(self).update(vars(trial))  # executing the probe's text again takes time
        self.probe = replace(trial.probe, leaves=tuple(leaves))

    def call(self, leaves: Mapping[str, Any], **options: Any) -> Any:
        with _moved_generators(self._pattern):
            return super().call(leaves, **options)

    def steps(self, leaves: Mapping[str, Any], **options: Any) -> Iterator[dict[str, Array]]:
        with _moved_generators(self._pattern):
            yield from super().steps(leaves, **options)


def _signs(generator: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """Return which numbers to move up: a random half, so that differences change too."""
    first = generator.integers(2)
    return generator.permutation((np.arange(count) + first) % 2 == 0)


def _moved(array: NumericArray, up: NDArray[np.bool_]) -> NumericArray:
    """Return floating-point numbers moved by one unit in the last place, and all else as it is."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        ends = np.where(up, np.inf, -np.inf).astype(array.dtype)
        moved = np.nextafter(array, ends.reshape(array.shape))
        is_normal = np.abs(array) >= np.finfo(array.dtype).smallest_normal
    return np.where(is_normal & np.isfinite(moved), moved, array)


class _MovedGenerator(np.random.Generator):
    """A generator whose floating-point numbers are moved by one unit in the last place."""

    signs: ClassVar[np.random.Generator]


def _moving(draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(draw)
    def method(self: _MovedGenerator, *args: Any, **options: Any) -> Any:
        drawn = draw(self, *args, **options)
        if not isinstance(drawn, float | np.floating | np.ndarray):
            return drawn
        array = np.asarray(drawn)
        moved = _moved(array, _signs(self.signs, array.size))
        return moved if isinstance(drawn, np.ndarray) else type(drawn)(moved)

    return method


for _name, _member in vars(np.random.Generator).items():
    if callable(_member) and not _name.startswith("_"):
        setattr(_MovedGenerator, _name, _moving(_member))


@contextmanager
def _moved_generators(pattern: int) -> Iterator[None]:
    """Make new generators draw moved numbers inside."""

    def default_rng(seed: Any = None) -> np.random.Generator:
        if isinstance(seed, np.random.Generator):
            return seed
        bits = seed if isinstance(seed, np.random.BitGenerator) else np.random.PCG64(seed)
        return _MovedGenerator(bits)

    before = np.random.default_rng
    _MovedGenerator.signs = _DEFAULT_RNG([pattern, 1])
    np.random.default_rng = default_rng
    try:
        yield
    finally:
        np.random.default_rng = before


_DEFAULT_RNG = np.random.default_rng
