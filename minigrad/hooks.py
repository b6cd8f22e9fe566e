"""Hooks: functions of yours that see a cotangent on its way back, and may replace it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from minigrad.types import Array

Hook = Callable[[Array], ArrayLike | None]
"""From a tensor's cotangent to the one that shall take its place; None leaves it."""


class Handle:
    """What `register_hook` returns, to take the hook away again."""

    def __init__(self, hooks: dict[object, Hook], key: object) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        self._hooks.pop(self._key, None)


def add_hook(hooks: dict[object, Hook], hook: Hook) -> Handle:
    """Put `hook` after those that are there."""
    key = object()
    hooks[key] = hook
    return Handle(hooks, key)


def call_hooks(hooks: dict[object, Hook], cotangent: Array) -> Array:
    """The cotangent after all hooks, in the order in which they came.

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
