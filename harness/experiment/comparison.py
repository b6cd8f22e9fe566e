"""How a run of an unbroken engine compares with the correct one, number by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from harness.answer_key.outcome import Judgement
from harness.core.message import Kind
from harness.core.run import Array, NumericArray, Run, pack


def has_wrong_output(run: Run, correct: Run) -> bool:
    """Whether numbers in an output of the right size are wrong."""
    if not (run.output and correct.output):
        return False
    own, other = run.output.numpy(), correct.output.numpy()
    return own.size == other.size and not _close(own.reshape(other.shape), other).all()


def is_right_where_finite(run: Run, correct: Run) -> bool:
    """Whether every number of a run is right, apart from NaN and infinity."""
    pairs = [(one.numpy(), other.numpy()) for one, other in _pairs(run, correct)]
    return not run.failure and all(
        one.shape == other.shape and (_close(one, other) | ~np.isfinite(one)).all()
        for one, other in pairs
    )


def is_of_output(judged: Judgement) -> bool:
    """Whether the output differs, so that the gradients may be right for what is computed."""
    first = judged.first_divergence
    return (first is not None and first.kind is Kind.OUTPUT) or (
        judged.kind == "shape" and judged.entry == "loss"
    )


def has_own_nan(run: Run, correct: Run) -> bool:
    """Whether a number is NaN that is not NaN in the correct run."""
    pairs = [(one.numpy(), other.numpy()) for one, other in _pairs(run, correct)]
    return any(
        one.shape == other.shape and bool((np.isnan(one) & ~np.isnan(other)).any())
        for one, other in pairs
    )


def is_slight(actual: Array, expected: Array) -> bool:
    """Whether they agree to 1e-4, and none is NaN."""
    own, other = actual.numpy(), expected.numpy()
    return not np.isnan(own).any() and bool(_close(own, other).all())


def _pairs(run: Run, correct: Run) -> Iterator[tuple[Array, Array]]:
    """Yield the arrays that both runs have: the outputs, gradients and entries of the log."""
    entries: Iterable[tuple[Mapping[str, Array | None], Mapping[str, Array | None]]] = (
        ({"": run.output}, {"": correct.output}),
        (run.gradients, correct.gradients),
        *zip(run.log, correct.log, strict=False),
    )
    for own, others in entries:
        for name, other in others.items():
            if (one := own.get(name)) and other:
                yield one, other


def in_one_form(run: Run, correct: Run) -> tuple[Run, Run]:
    """Return both runs with the numbers of each pair of arrays in one shape and one dtype.

    Arrays of the same size take the shape of the correct one, and floats the lower precision.
    """

    def alike(one: Array | None, other: Array | None) -> tuple[Array | None, Array | None]:
        if not (one and other):
            return one, other
        own, correct = one.numpy(), other.numpy()
        if own.size == correct.size:
            own = own.reshape(correct.shape)
        lower = own.dtype.kind == "f" and own.dtype.itemsize < correct.dtype.itemsize
        dtype = own.dtype if lower else correct.dtype
        with np.errstate(all="ignore"):
            return pack(own.astype(dtype)), pack(correct.astype(dtype))

    def convert(position: int, this: Run) -> Run:
        def pick(name: str, own: Mapping[str, Any], others: Mapping[str, Any]) -> Array | None:
            return alike(own.get(name), others.get(name))[position]

        logs = list(zip(run.log, correct.log, strict=False))
        return msgspec.structs.replace(
            this,
            output=alike(run.output, correct.output)[position],
            gradients={n: pick(n, run.gradients, correct.gradients) for n in this.gradients},
            log=[{n: pick(n, *pair) for n in pair[position]} for pair in logs],
            leaf_log=[],
            large=[],
        )

    return convert(0, run), convert(1, correct)


def as_stored(correct: Run, run: Run) -> Run:
    """Return our run in the precision of the engine's run, with the created leaves that it has."""
    correct = correct.only(run.leaves.keys())
    if run.not_compared:
        correct = msgspec.structs.replace(correct, leaf_log=[], large=[])
    if not (correct.output and run.output) or correct.output.dtype == run.output.dtype:
        return correct
    kind = np.dtype(run.output.dtype)
    if kind.kind != "f":
        return correct

    def cast(array: Array | None) -> Array | None:
        return None if array is None else pack(array.numpy().astype(kind))

    def cast_all(entry: Mapping[str, Array]) -> dict[str, Array]:
        return {name: pack(array.numpy().astype(kind)) for name, array in entry.items()}

    return msgspec.structs.replace(
        correct,
        leaves=cast_all(correct.leaves),
        output=cast(correct.output),
        gradients={name: cast(gradient) for name, gradient in correct.gradients.items()},
        log=[cast_all(entry) for entry in correct.log],
        leaf_log=[cast_all(entry) for entry in correct.leaf_log],
    )


def _close(one: NumericArray, other: NumericArray) -> NumericArray:
    """Return which numbers agree to 1e-4, so that no formula or operand is wrong."""
    with np.errstate(all="ignore"):
        return np.isclose(one, other, rtol=1e-4, atol=1e-7, equal_nan=True)
