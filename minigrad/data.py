"""Preparing data for a model: splits, batches, sequences, scaling, missing values, augmentation.

Rows are samples, along the first axis. All randomness comes from a generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from minigrad.types import Array

# ----- Splits: rows to index every array with -----


def train_test_split(
    count: int, test_share: float, *, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the indices 0 ... count - 1, shuffled: training rows, and a `test_share` of test rows.

    Raises ValueError if either would be empty.
    """
    rows = rng.permutation(count)
    cut = round(count * test_share)
    if not 0 < cut < count:
        raise ValueError(f"a test share of {test_share} cannot split {count} in two")
    return rows[cut:], rows[:cut]


def group_split(
    groups: ArrayLike, test_share: float, *, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Like `train_test_split`, but for whole groups: no group has rows on both sides.

    `groups` names each row's group: the person, the recording, the original of a copy.
    """
    names, group_of_row = np.unique(np.asarray(groups), return_inverse=True)
    _, test = train_test_split(len(names), test_share, rng=rng)
    in_test = np.isin(group_of_row, test)
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)


# ----- Batches -----


class DataLoader:
    """Batches of rows from several arrays, in a new order for each iteration.

    The last batch may be smaller; `drop_last` leaves it out. To resume a training between two
    epochs, save the state of `rng`. Raises ValueError for arrays of different lengths.
    """

    def __init__(
        self,
        *arrays: Array,
        batch_size: int,
        rng: np.random.Generator,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        """`rng` should be the loader's own, so that nothing else affects the order."""
        if len({len(array) for array in arrays}) != 1:
            raise ValueError(f"arrays of {[len(x) for x in arrays]} rows do not go together")
        if batch_size < 1:
            raise ValueError(f"a batch size of {batch_size}: at least 1")
        self.arrays, self.batch_size = arrays, batch_size
        self.rng, self.shuffle, self.drop_last = rng, shuffle, drop_last

    def __len__(self) -> int:
        """The number of batches."""
        count = len(self.arrays[0])
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        """Iterate over one epoch: tuples with a part of each array."""
        count = len(self.arrays[0])
        order = self.rng.permutation(count) if self.shuffle else np.arange(count)
        for i in range(len(self)):
            rows = order[i * self.batch_size : (i + 1) * self.batch_size]
            yield tuple(array[rows] for array in self.arrays)


def worker_generators(seed: int, workers: int) -> list[np.random.Generator]:
    """Return a generator for each worker, each with numbers of its own."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(workers)]


# ----- Sequences -----


def next_symbols(sequences: Array) -> tuple[Array, Array]:
    """Return inputs and targets for prediction: each symbol, and the one that follows it.

    (rows, length) -> twice (rows, length - 1). Raises ValueError for a length below 2.
    """
    if sequences.shape[1] < 2:
        raise ValueError(f"sequences of {sequences.shape[1]}: there is no next symbol to predict")
    return sequences[:, :-1], sequences[:, 1:]


# ----- Scaling -----


class StandardScaler:
    """Mean 0 and standard deviation 1 for each column of the rows it was fitted to.

    Fit it to the training rows alone: statistics of test rows would leak into the model.
    """

    mean: Array | None = None
    scale: Array | None = None

    def fit(self, x: Array) -> Self:
        """Fit to `x` (rows, columns); a constant column is only shifted, not divided."""
        check_complete(x)
        self.mean = x.mean(0)
        constant = x.max(0) == x.min(0)
        deviation = x.std(0)  # a float also for integers, and must stay one
        self.scale = np.where(constant, 1, deviation).astype(deviation.dtype)
        return self

    def transform(self, x: Array) -> Array:
        """Scale `x`. Raises RuntimeError before `fit`, ValueError for another number of columns."""
        if self.mean is None:
            raise RuntimeError("transform() before fit(): fit to the training rows first")
        if x.shape[1:] != self.mean.shape:
            raise ValueError(f"rows of shape {x.shape[1:]}, but fitted to {self.mean.shape}")
        return (x - self.mean) / self.scale


# ----- Missing values, marked by NaN; an infinity counts as missing too -----


def check_complete(x: Array) -> None:
    """Raise ValueError, with the rows and columns, if `x` (rows, columns) has missing values."""
    missing = _missing(x)
    if missing.any():
        rows, columns = (np.flatnonzero(missing.any(axis)).tolist() for axis in (1, 0))
        raise ValueError(
            f"NaN or infinity in rows {rows} and columns {columns}: drop the rows, or impute"
        )


def drop_missing(x: Array, *others: Array) -> tuple[Array, ...]:
    """Drop the rows of `x` (rows, columns) with missing values, and the same rows of `others`."""
    complete = ~_missing(x).any(1)
    return tuple(array[complete] for array in (x, *others))


class MeanImputer:
    """Replaces missing values by the mean of their column over the rows it was fitted to.

    Fit it to the training rows alone, like a scaler.
    """

    mean: Array | None = None

    def fit(self, x: Array) -> Self:
        """Fit to `x` (rows, columns). Raises ValueError for a column without any value."""
        known = ~_missing(x)
        empty = np.flatnonzero(~known.any(0)).tolist()
        if empty:
            raise ValueError(f"columns {empty} have no value, so they have no mean")
        self.mean = np.mean(x, 0, where=known)
        return self

    def transform(self, x: Array) -> Array:
        """Return a copy of `x` without missing values. Raises like `StandardScaler.transform`."""
        if self.mean is None:
            raise RuntimeError("transform() before fit(): fit to the training rows first")
        if x.shape[1:] != self.mean.shape:
            raise ValueError(f"rows of shape {x.shape[1:]}, but fitted to {self.mean.shape}")
        return np.where(_missing(x), self.mean, x)


def _missing(x: Array) -> Array:
    return ~np.isfinite(x)


# ----- Augmentation -----


def random_flip(*arrays: Array, rng: np.random.Generator) -> tuple[Array, ...]:
    """Flip the last axis of each row with probability 1/2; the same rows in all `arrays`.

    For images (rows, channels, height, width) and arrays with the same columns: masks, not labels.
    """
    flipped = rng.random(len(arrays[0])) < 0.5
    return tuple(
        np.where(flipped.reshape(-1, *[1] * (array.ndim - 1)), array[..., ::-1], array)
        for array in arrays
    )


def add_noise(x: Array, deviation: float, *, rng: np.random.Generator) -> Array:
    """Return `x` plus normal noise, in the dtype of `x`. Raises TypeError if `x` is not float."""
    if x.dtype.kind != "f":
        raise TypeError(f"noise on {x.dtype} would be cut down to whole numbers: make it floats")
    noise = deviation * rng.standard_normal(x.shape)
    noisy: Array = x + noise.astype(x.dtype)
    return noisy
