"""Tolerances: differences between correct engines, which say nothing about a patch.

Either rounding explains them, or another choice at a kink. Both are measured on the unpatched
engine, in the child process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.core.measurement import Measurement, MeasurementForm, Quantity
from harness.core.message import Kind, Message, message
from harness.core.rounding import largest, resolution, rounding, rounding_of
from harness.core.run import Array, Measured, NumericArray, Run, array_name, pack

if TYPE_CHECKING:
    from harness.runs.trial import Trial


# ----- Conditioning: how far numbers move if the inputs move by one unit in the last place -----
#
# Rounding moves the numbers within a computation by about as much. So where the unpatched engine's
# own result moves further than `harness.core.rounding` explains, two correct engines differ as well
# (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 2002, section 1.6: the
# forward error is about the condition number times the backward error). An example is a gradient
# that is 0 in exact arithmetic: what is computed is rounding error, and Adam divides it by its own
# size. `harness.answer_key.perturbation` measures it.

CONDITIONING = Measurement(
    "conditioning",
    "harness.answer_key.perturbation:measure",
    kinds=("gradient", "steps", "module"),
    form=MeasurementForm(
        numbers=tuple(
            Quantity(name, required=False)
            for name in ("output", "steps", "{leaf}.grad", "{number} {text}")
        )
    ),
)
"""Must be measured on the unpatched engine, so that what rounding moves is not a bug."""

OUTPUT, STEPS = "output", "steps"
"""Names of what can move, besides gradients (`a.grad`) and entries of a log (`3 loss`): the output
and the number of steps."""

TIMES = 16
"""Differences up to this multiple of the conditioning error are not judged: a computation rounds
several times, and each pattern shows only a part of what can move."""


def gradient_name(leaf: str) -> str:
    """Return the name of a leaf's gradient."""
    return f"{leaf}.grad"


def entry_name(step: int, entry: str) -> str:
    """Return the name of an entry of the log."""
    return f"{step} {entry}"


def movements(clean: Run) -> dict[str, float]:
    """Return by how much the arrays move that move by more than rounding explains."""
    measured = clean.measured.get(CONDITIONING.name)
    return measured.numbers if measured else {}


def slack(clean: Run, name: str) -> float:
    """Return the difference to accept in an array, beyond rounding; 0 if it does not move."""
    return TIMES * movements(clean).get(name, 0.0)


def ill_conditioned(clean: Run) -> dict[str, float]:
    """Return the arrays in which errors in half of the digits are not judged, with their slack.

    In a log, the digits are those of the largest number that the entry has at any step. An array
    that is 0 in exact arithmetic has none of its own: then the largest number of the run counts.
    """
    moving = movements(clean)
    if not moving:
        return {}
    arrays = {name: array.numpy() for name, array, _ in arrays_of(clean)}
    leaves, sizes = clean.values().values(), dict[str, float]()
    for name, array in arrays.items():
        entry = _entry_of(name)
        sizes[entry] = max(sizes.get(entry, 0.0), largest(array))
    found = {}
    for name in moving:
        hidden, size = slack(clean, name), sizes.get(_entry_of(name), 0.0)
        if size <= hidden:
            size = max(largest(*leaves), *sizes.values())
        eps = resolution(*(arrays[one] for one in [name] if one in arrays), *leaves)
        if hidden > math.sqrt(eps) * size:
            found[name] = hidden
    return found


def description_of(name: str) -> Message:
    """Return the name of an array, or of what else can move, as reports show it."""
    step, entry = _parts_of(name)
    if step:
        return message("{entry} after step {step}", entry=array_name(entry), step=step)
    names = {OUTPUT: message(Kind.OUTPUT), STEPS: message("the number of steps")}
    return names.get(name) or array_name(name)


def _entry_of(name: str) -> str:
    """Return the name of an array without the number of its step."""
    return _parts_of(name)[1]


def _parts_of(name: str) -> tuple[str, str]:
    """Return the number of the step, or an empty text, and the rest of the name."""
    step, _, entry = name.partition(" ")
    return (step, entry) if step.isdigit() else ("", name)


def arrays_of(run: Run) -> Iterator[tuple[str, Array, int]]:
    """Yield each array that was observed, with its name and the passes that led to it."""
    if run.output:
        yield OUTPUT, run.output, 1
    for leaf, gradient in run.gradients.items():
        if gradient:
            yield gradient_name(leaf), gradient, 1
    for step, entries in enumerate(run.logged):
        for entry, array in entries.items():
            yield entry_name(step, entry), array, step + 1


# ----- Valid choices at a kink, where correct engines may differ -----
#
# An entry of a gradient is at a kink if the two one-sided slopes of the loss with respect to that
# entry differ. The slopes are the unpatched engine's gradients one step to either side of the
# leaf's entry. There are two step sizes, the second an eighth of the first: the difference between
# the two sides shrinks by the same factor for a smooth function, and stays the same at a kink. The
# change of the slopes from one step size to the other is taken as their error.
#
# A choice is valid if the entry lies between the one-sided slopes. Entries that affect each other
# must be valid together: if two elements tie for a maximum, either may get the whole gradient, but
# not both. So along any direction that moves such entries, the slope must lie between the smallest
# and the largest slope of the gradients nearby (Clarke, Optimization and Nonsmooth Analysis,
# 1983, proposition 2.1.2).

KINKS = Measurement(
    "kinks",
    "harness.answer_key.tolerances:measure_kinks",
    form=MeasurementForm(
        (
            Quantity("entries", "entries", "iu"),
            Quantity("directions", "directions entries"),
            Quantity("lowest", "directions"),
            Quantity("highest", "directions"),
        ),
        may_be_empty=True,
    ),
)
"""A different choice at a kink is not a bug."""

FlatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHORTER = 8
"""The first step divided by the second; the first is the square root of the machine epsilon."""

CERTAIN = 10
"""At a kink, the slopes differ by more than this many times their error."""

MOST_ENTRIES = 50
"""The number of entries that are examined. Each takes four forward and backward passes, and two
more at a kink."""

TOGETHER = 16
"""The number of random directions for each set of entries that affect each other."""


def measure_kinks(trial: Trial, run: Run) -> Measured:
    """Measure the bounds of the slope of the loss at kinks, along several directions.

    `entries` are the flat indices of the entries at kinks, over all leaves; the rows of
    `directions` move these entries, and `lowest` and `highest` bound the slope along each row.
    Nothing is measured if there are no kinks.
    """
    around = _NearbyGradients(trial, run)
    kinked = _kinked(around)
    if not kinked:
        return Measured()
    rows = [*_alone(around, kinked), *_tied(around, kinked)]
    directions, bounds = (np.array(column) for column in zip(*rows, strict=True))
    entries = list(kinked)
    measured = {
        "entries": np.array(entries),
        "directions": directions[:, entries],
        "lowest": bounds[:, 0],
        "highest": bounds[:, 1],
    }
    return Measured({name: pack(array) for name, array in measured.items()})


def entries_at_kinks(trial: Trial, run: Run) -> frozenset[int]:
    """Return the flat indices of the entries at kinks, over all leaves."""
    return frozenset(_kinked(_NearbyGradients(trial, run)))


def valid_choices(gradients: Mapping[str, Array | None], clean: Run) -> dict[str, Mask]:
    """Return which entries of the gradients are a valid choice at a kink, as booleans by leaf.

    `clean` is the unpatched engine's run with its measured kinks; none if it is not at a kink. A
    gradient that is missing or does not have the shape of its leaf is never a valid choice.
    """
    if KINKS.name not in clean.measured or not clean.measured[KINKS.name].values:
        return {}
    measured = clean.measured[KINKS.name].values
    arrays = {name: array.numpy() for name, array in gradients.items() if array}
    flat = [_flat(arrays.get(name), leaf.shape) for name, leaf in clean.leaves.items()]
    entries, directions, lowest, highest = (
        measured[name].numpy() for name in ("entries", "directions", "lowest", "highest")
    )
    if ((entries < 0) | (entries >= sum(part.size for part in flat))).any():
        return {}  # the engine's process may have sent any numbers
    moves, candidate = directions != 0, np.concatenate(flat)[entries]
    with np.errstate(invalid="ignore"):
        slopes = np.where(moves, directions * candidate, 0.0).sum(1)
    tolerance = rounding_of(candidate, *arrays.values()) * np.maximum(abs(lowest), abs(highest))
    fits = (lowest - tolerance <= slopes) & (slopes <= highest + tolerance)
    valid = np.zeros(sum(part.size for part in flat), bool)
    valid[entries] = ~(moves & ~fits[:, None]).any(0)
    parts = np.split(valid, np.cumsum([part.size for part in flat]))
    leaves = zip(clean.leaves.items(), parts, strict=False)
    return {name: part.reshape(leaf.shape) for (name, leaf), part in leaves}


def _flat(gradient: NumericArray | None, shape: tuple[int, ...]) -> FlatArray:
    """Return a gradient as a flat vector of float64; NaN if it does not fit its leaf."""
    if gradient is None or gradient.shape != shape or gradient.dtype.kind == "c":
        return np.full(math.prod(shape), np.nan)
    return gradient.ravel().astype(np.float64)


# ----- Measuring, in the child process -----


class _Sides:
    """The gradients on the two sides of the leaves, for a large and for a small step."""

    def __init__(
        self, wide: Sequence[FlatArray], near: Sequence[FlatArray], relative: float
    ) -> None:
        self.near = near
        with np.errstate(invalid="ignore"):
            drift = np.abs(np.subtract(wide, near)).sum(0)
            self.error: FlatArray = drift + relative * max(map(largest, near))
            self.jump: FlatArray = np.abs(near[1] - near[0])

    @property
    def kinked(self) -> Mask:
        """The entries in which the two sides clearly differ."""
        return self.jump > CERTAIN * self.error


class _NearbyGradients:
    """The unpatched engine's gradients near the leaves of a run, all leaves as one flat vector.

    The diagnostics' `Surroundings` measure the forward pass, since they check the gradients.
    """

    def __init__(self, trial: Trial, run: Run) -> None:
        assert run.cotangent is not None
        self._trial, self._leaves, self._cotangent = trial, run.values(), run.cotangent.numpy()
        units = [
            np.where(np.isfinite(leaf), np.maximum(1.0, np.abs(leaf)), 0.0).ravel()
            if leaf.dtype.kind == "f"
            else np.zeros(leaf.size)
            for leaf in self._leaves.values()
        ]
        self.unit: FlatArray = np.concatenate([*units, np.zeros(0)]).astype(np.float64)
        """How far each entry is moved for a step of 1; whole numbers are not moved."""
        eps = trial.precision(run)
        self._step, self._rounding = math.sqrt(eps) / SHORTER, rounding(self.unit.size, eps)

    def one(self, index: int) -> FlatArray:
        """Return the direction that moves only one entry."""
        direction = np.zeros_like(self.unit)
        direction[index] = self.unit[index]
        return direction

    def sides(self, direction: FlatArray) -> _Sides:
        """Return the gradients on both sides along a direction."""
        return _Sides(self.pair(SHORTER * direction), self.pair(direction), self._rounding)

    def pair(self, direction: FlatArray) -> list[FlatArray]:
        """Return the gradients after a small step to either side."""
        return [self._gradient(side * self._step * direction) for side in (-1.0, 1.0)]

    def _gradient(self, displacement: FlatArray) -> FlatArray:
        ends = np.cumsum([leaf.size for leaf in self._leaves.values()])
        parts = zip(self._leaves.items(), np.split(displacement, ends), strict=False)
        moved = {
            name: (leaf + part.reshape(leaf.shape)).astype(leaf.dtype)
            for (name, leaf), part in parts
        }
        _, gradients = self._trial.gradients(moved, self._cotangent)
        flat = [
            _flat(np.zeros(leaf.shape) if gradients[name] is None else gradients[name], leaf.shape)
            for name, leaf in self._leaves.items()
        ]
        return np.concatenate([*flat, np.zeros(0)])

    def suspects(self) -> list[int]:
        """Return all entries, the largest jumps first; none if there is no jump.

        All entries move at once, along two random directions, so every kink changes some entry.
        """
        rng, jumps = np.random.default_rng(0), np.zeros_like(self.unit)
        for _ in range(2):
            lengths = rng.uniform(0.5, 1.0, self.unit.size) * rng.choice([-1, 1], self.unit.size)
            sides = self.sides(self.unit * lengths / math.sqrt(max(self.unit.size, 1)))
            # The curvature of many entries adds up, so the limit is lower than for a single entry.
            jumps += np.where(sides.jump > 2 * sides.error, sides.jump, 0.0)
        return np.argsort(-jumps, kind="stable").tolist() if jumps.any() else []


def _kinked(around: _NearbyGradients) -> dict[int, _Sides]:
    """Return the entries at kinks, in order, with the gradients on both sides of each."""
    sides = {i: around.sides(around.one(i)) for i in around.suspects()[:MOST_ENTRIES]}
    return {i: sides[i] for i in sorted(sides) if sides[i].kinked[i]}


_SlopeBounds = tuple[FlatArray, tuple[float, float]]
"""A direction, and the bounds of the slope along it."""


def _alone(around: _NearbyGradients, kinked: Mapping[int, _Sides]) -> Iterator[_SlopeBounds]:
    """Yield the one-sided slopes of each entry."""
    for index, sides in kinked.items():
        unit, error = around.unit[index], sides.error[index]
        slopes = [gradient[index] for gradient in sides.near]
        yield around.one(index), (unit * (min(slopes) - error), unit * (max(slopes) + error))


def _tied(around: _NearbyGradients, kinked: Mapping[int, _Sides]) -> Iterator[_SlopeBounds]:
    """Yield the bounds along directions that move all entries of a group together, or some."""
    groups = _groups(kinked, _affected(around, kinked)) if len(kinked) > 1 else []
    if not groups:
        return
    moves = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], (TOGETHER, around.unit.size))
    directions = np.vstack([around.unit, moves * around.unit])
    others = np.setdiff1d(np.arange(around.unit.size), np.concatenate(groups))
    directions[:, others] = 0.0
    nearby = [gradient for direction in directions for gradient in around.pair(direction)]
    for group in groups:
        own = [gradient for index in group for gradient in kinked[index].near]
        gradients = np.array(nearby + own)[:, group]
        errors = [kinked[index].error[index] for index in group]
        for direction in directions:
            part = np.zeros_like(direction)
            part[group] = direction[group]
            slopes, error = gradients @ part[group], float(np.abs(part[group]) @ errors)
            yield part, (float(slopes.min()) - error, float(slopes.max()) + error)


def _affected(around: _NearbyGradients, kinked: Mapping[int, _Sides]) -> dict[int, Mask]:
    """Return, for each entry at a kink, the entries whose gradients it affects.

    Each entry is moved alone, and again while all others are moved too. Moving it alone is not
    enough: at 0, the gradient of a norm then points along that entry, which does not show that all
    entries share a bound on its length.
    """
    moved = np.zeros_like(around.unit)
    moved[[*kinked]] = np.random.default_rng(2).uniform(0.5, 1.0, len(kinked))
    moved *= around.unit
    together = around.sides(moved)  # a smooth change is part of its error
    affected = {}
    for index, sides in kinked.items():
        nearer = moved.copy()
        nearer[index] /= 2
        with np.errstate(invalid="ignore"):
            change = np.abs(np.subtract(around.pair(nearer), together.near)).max(0)
        affected[index] = sides.kinked | (change > CERTAIN * (sides.error + together.error))
    return affected


def _groups(kinked: Mapping[int, _Sides], affected: Mapping[int, Mask]) -> list[list[int]]:
    """Return the sets of entries that affect each other, directly or through others."""
    group = {index: {index} for index in kinked}
    for one in kinked:
        for other in kinked:
            if affected[one][other] and group[one] is not group[other]:
                group[one] |= group[other]
                group.update(dict.fromkeys(group[other], group[one]))
    distinct = {id(members): sorted(members) for members in group.values()}
    return [members for members in distinct.values() if len(members) > 1]
