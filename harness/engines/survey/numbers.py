"""Numbers to try an engine with, and whether it gave the right ones."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from harness.core.run import NumericArray


def drawn(shape: tuple[int, ...], seed: int = 0) -> NumericArray:
    """Random numbers, the same every time."""
    return np.asarray(np.random.default_rng((20, seed)).standard_normal(shape))


def same(found: Any, wanted: Any) -> bool:
    """Equal as far as float32 can tell, in shape too."""
    try:
        seen = np.asarray(found, float)
    except Exception:  # what pretends to be an array may fail in any way
        return False
    return seen.shape == np.shape(wanted) and bool(np.allclose(seen, wanted, 1e-4, 1e-5))


def state_of(gradient: Any) -> str:
    """What a leaf's gradient is before the first walk."""
    if gradient is None:
        return "none"
    if isinstance(gradient, int | float):
        return "number"
    return "zeros" if np.shape(getattr(gradient, "data", gradient)) else "number"


def can_import(name: str) -> bool:
    """Whether a module of the engine can be imported."""
    try:
        importlib.import_module(name)
    except BaseException:
        return False
    return True
