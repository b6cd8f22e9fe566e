"""Inputs for trying an engine, and the comparison of its results."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from harness.core.run import NumericArray

Shape = tuple[int, ...]


def sample(shape: Shape, seed: int = 0) -> NumericArray:
    """Return reproducible random numbers."""
    return np.asarray(np.random.default_rng((20, seed)).standard_normal(shape))


def same(actual: Any, expected: Any) -> bool:
    """Whether two arrays have the same shape and are equal within the precision of float32."""
    try:
        array = np.asarray(actual, float)
    except Exception:  # a foreign object may fail in any way
        return False
    return array.shape == np.shape(expected) and bool(np.allclose(array, expected, 1e-4, 1e-5))


def kind_of_gradient(gradient: Any) -> str:
    """The kind of a leaf's initial gradient: none, number or zeros."""
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
