"""How an engine accumulates gradients: their values and memory around a second backward pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.arrays import Adapter
from harness.engines.adapter.calling import attribute_of
from harness.engines.survey import SurveyStep
from harness.engines.survey.numbers import Shape, kind_of_gradient, same, sample

USES: tuple[Callable[..., Any], ...] = (
    lambda leaf, other: leaf * leaf,  # noqa: ARG005
    lambda leaf, other: leaf + leaf,  # noqa: ARG005
    lambda leaf, other: leaf * other,
    lambda leaf, other: leaf + other,
)
"""Uses of a leaf in a forward pass; the first that works is used."""


def accumulation_of(step: SurveyStep, library: Adapter, shape: Shape) -> SurveyStep:
    """Return the step, completed with how the engine accumulates gradients of this shape."""
    late = _reads_late(library, shape)
    if not library.dialect.stores_gradients:
        return msgspec.structs.replace(step, second_backward="returned", reads_late=late)
    cotangent = sample(shape, 1)
    leaf, use, first = _first_backward(library, cotangent)
    initial = kind_of_gradient(_stored_gradient(library, library.leaf(sample(shape))))
    copy_of_first = None if first is None else np.array(first, copy=True)
    try:
        second = _gradient_after(library, use(leaf), leaf, cotangent)
    except Exception:
        return msgspec.structs.replace(step, initial_gradient=initial, second_backward="refused")
    effect = ""
    if first is not None and second is not None and copy_of_first is not None:
        in_place = np.shares_memory(np.asarray(first), np.asarray(second))
        doubled = same(second, 2 * copy_of_first)
        effect = ("in place" if in_place else "rebound") if doubled else "replaced"
    return msgspec.structs.replace(
        step,
        initial_gradient=initial,
        second_backward=effect,
        shares_memory=_shares_memory(library, shape),
        reads_late=late,
    )


def _first_backward(
    library: Adapter, cotangent: NumericArray
) -> tuple[Any, Callable[[Any], Any], Any]:
    """Return a leaf after a backward pass, how it was used, and its gradient."""
    other = library.leaf(sample(cotangent.shape, 2))
    failure = Exception()
    for use in USES:
        leaf, used = library.leaf(sample(cotangent.shape)), partial(use, other=other)
        try:
            return leaf, used, _gradient_after(library, used(leaf), leaf, cotangent)
        except Exception as error:  # a missing operator, or a leaf that can be used only once
            failure = error
    raise failure


def _gradient_after(library: Adapter, output: Any, leaf: Any, cotangent: NumericArray) -> Any:
    library.backward(output, cotangent.copy())
    return library.gradient(leaf)


def _stored_gradient(library: Adapter, leaf: Any) -> Any:
    """Return the attribute that the gradient is read from, before any conversion."""
    native = leaf.native
    tensor = native.flat[0] if library.dialect.kind == "scalars" else native
    expression = library.dialect.gradient.removeprefix("None if t.grad is None else ")
    attribute = re.match(r"t\.(\w+)", expression)
    return attribute_of(tensor, attribute[1]) if attribute else None


def _reads_late(library: Adapter, shape: Shape) -> bool:
    """Whether changing a leaf between the passes changes the gradient."""
    x, cotangent = sample(shape), np.ones(shape)
    leaf = library.leaf(x)
    try:
        output = leaf * leaf
        library.assign(leaf, x + 1)
        return same(_gradient_after(library, output, leaf, cotangent), 2 * (x + 1))
    except Exception:
        return False


def _shares_memory(library: Adapter, shape: Shape) -> bool:
    """Whether the gradients of `a + b` share memory with each other or with the cotangent."""
    a, b = (library.leaf(sample(shape, seed)) for seed in (0, 1))
    cotangent = sample(shape, 2)
    try:
        library.backward(a + b, cotangent)
        first, second = library.gradient(a), library.gradient(b)
    except BaseException:
        return False
    if first is None or second is None:
        return False
    return bool(np.shares_memory(first, second) or np.shares_memory(first, cotangent))
