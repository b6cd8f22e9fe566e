"""How gradients are added up: what one is before and after a second walk, and in whose memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter import Foreign
from harness.engines.adapter.calling import attribute_of
from harness.engines.survey.numbers import drawn, same, state_of
from harness.engines.survey.record import Surveyed

Shape = tuple[int, ...]

USES: tuple[Callable[..., Any], ...] = (
    lambda leaf, other: leaf * leaf,  # noqa: ARG005
    lambda leaf, other: leaf + leaf,  # noqa: ARG005
    lambda leaf, other: leaf * other,
    lambda leaf, other: leaf + other,
)
"""What a leaf is put to before a walk; the first that works."""


def added_up(said: Surveyed, library: Foreign, shape: Shape) -> Surveyed:
    """What was `said`, and what becomes of a gradient of this shape where another arrives."""
    cotangent = drawn(shape, 1)
    leaf, use, first = _first_walk(library, cotangent)
    before = state_of(_raw(library, library.leaf(drawn(shape))))
    once = None if first is None else np.array(first, copy=True)
    try:
        again = _walk_back(library, use(leaf), leaf, cotangent)
    except Exception:
        return msgspec.structs.replace(said, before=before, second="refused")
    second = ""
    if first is not None and again is not None and once is not None:
        kept = np.shares_memory(np.asarray(first), np.asarray(again))
        doubled = same(again, 2 * once)
        second = ("in place" if kept else "rebound") if doubled else "replaced"
    return msgspec.structs.replace(
        said,
        before=before,
        second=second,
        shares=_shares(library, shape),
        late=_is_late(library, shape),
    )


def _first_walk(library: Foreign, cotangent: NumericArray) -> tuple[Any, Callable[[Any], Any], Any]:
    """A leaf that has a gradient, how it was used, and that gradient."""
    other = library.leaf(drawn(cotangent.shape, 2))
    failure = Exception()
    for use in USES:
        leaf, used = library.leaf(drawn(cotangent.shape)), partial(use, other=other)
        try:
            return leaf, used, _walk_back(library, used(leaf), leaf, cotangent)
        except Exception as error:  # it has no such operator, or forgets what is used twice
            failure = error
    raise failure


def _walk_back(library: Foreign, output: Any, leaf: Any, cotangent: NumericArray) -> Any:
    library.backward(output, cotangent.copy())
    return library.gradient(leaf)


def _raw(library: Foreign, leaf: Any) -> Any:
    held = leaf.held
    first = held.flat[0] if library.dialect.kind == "scalars" else held
    place = library.dialect.gradient.removeprefix("None if t.grad is None else ")
    attribute = re.match(r"t\.(\w+)", place)
    return attribute_of(first, attribute[1]) if attribute else None


def _is_late(library: Foreign, shape: Shape) -> bool:
    """Whether a leaf that changes between the passes changes the gradient."""
    x, cotangent = drawn(shape), np.ones(shape)
    leaf = library.leaf(x)
    try:
        output = leaf * leaf
        library.move(leaf, x + 1)
        return same(_walk_back(library, output, leaf, cotangent), 2 * (x + 1))
    except Exception:
        return False


def _shares(library: Foreign, shape: Shape) -> bool:
    a, b = (library.leaf(drawn(shape, seed)) for seed in (0, 1))
    given = drawn(shape, 2)
    try:
        library.backward(a + b, given)
        one, other = library.gradient(a), library.gradient(b)
    except BaseException:
        return False
    held = [each for each in (one, other) if each is not None]
    return len(held) == 2 and bool(
        np.shares_memory(held[0], held[1]) or np.shares_memory(held[0], given)
    )
