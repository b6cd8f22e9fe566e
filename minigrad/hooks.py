"""Hooks: user functions that receive a cotangent in the backward pass, and may replace it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from minigrad.types import Array

Hook = Callable[[Array], ArrayLike | None]
"""Maps a tensor's cotangent to its replacement; None keeps it."""


class Handle:
    """Returned by `register_hook`; removes the hook."""

    def __init__(self, hooks: dict[object, Hook], key: object) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self._hooks.pop(self._key, None)


def add_hook(hooks: dict[object, Hook], hook: Hook) -> Handle:
    """Add `hook` after the existing ones."""
    key = object()
    hooks[key] = hook
    return Handle(hooks, key)


def call_hooks(hooks: dict[object, Hook], cotangent: Array) -> Array:
    """Return the cotangent after all hooks, in the order of registration.

    A hook gets a copy, so that writing into it changes nothing. Raises ValueError for a replacement
    of another shape.
    """
    for hook in list(hooks.values()):
        replacement = hook(cotangent.copy())
        if replacement is not None:
            replacement = np.array(replacement, cotangent.dtype)
            if replacement.shape != cotangent.shape:
                raise ValueError(
                    f"a hook returned an array of shape {replacement.shape} for a cotangent of "
                    f"shape {cotangent.shape}: return one of the same shape, or None to leave it"
                )
            cotangent = replacement
    return cotangent
