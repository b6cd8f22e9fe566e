"""Additions to a tensor: hooks, retained gradients, and counted changes in place.

The core computes the same gradients without any of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from minigrad.hooks import Handle, Hook, add_hook
from minigrad.modes import recording
from minigrad.types import Array, Vjp
from minigrad.versions import UNCHANGED, Version


class Instrumentation:
    """The hooks of a tensor, and the times when it was recorded and changed."""

    __slots__ = ("__weakref__", "hooks", "recorded", "retains_grad", "version")

    data: Array
    op: str
    parents: Sequence[Instrumentation]
    requires_grad: bool
    vjp: Vjp | None

    hooks: dict[object, Hook] | None
    recorded: int
    retains_grad: bool
    version: Version

    # ----- In the backward pass -----

    def retain_grad(self) -> None:
        """Let `backward()` also set the `grad` of this tensor, even if it is not a leaf.

        Raises RuntimeError where no gradient passes.
        """
        self._check_requires_grad("retain_grad()")
        self.retains_grad = self.vjp is not None

    def register_hook(self, hook: Hook) -> Handle:
        """Call `hook(cotangent)` in each walk, once the cotangent of this tensor is complete.

        It gets this walk's cotangent, not the `grad` of earlier ones. Its result, unless None,
        replaces the cotangent. `handle.remove()` removes the hook. Raises RuntimeError if the
        tensor requires no gradient.
        """
        self._check_requires_grad("register_hook()")
        if self.hooks is None:
            self.hooks = {}
        return add_hook(self.hooks, hook)

    def _check_requires_grad(self, method: str) -> None:
        if not self.requires_grad:
            raise RuntimeError(
                f"{method} on a tensor that does not require a gradient: no cotangent will pass "
                "here; create the leaf with requires_grad=True, and compute outside no_grad()"
            )

    # ----- In place -----
    # Not recorded, but counted (see Version), so that a backward pass that needs old values raises.

    def add_(self, other: Instrumentation | ArrayLike) -> Self:
        """Add `other` to the elements, in place."""
        self._change()
        np.add(self.data, _array(other), out=self.data)
        return self

    def mul_(self, other: Instrumentation | ArrayLike) -> Self:
        """Multiply the elements by `other`, in place."""
        self._change()
        np.multiply(self.data, _array(other), out=self.data)
        return self

    def copy_(self, other: Instrumentation | ArrayLike) -> Self:
        """Replace the elements by those of `other`, in place."""
        self._change()
        np.copyto(self.data, _array(other))
        return self

    def __setitem__(self, index: Any, other: Instrumentation | ArrayLike) -> None:
        """`self[index] = other`, in place, for any index that NumPy accepts."""
        self._change()
        parts = index if isinstance(index, tuple) else (index,)
        self.data[tuple(_array(part) for part in parts)] = _array(other)

    def _change(self) -> None:
        """Count a change in place. Raises RuntimeError if a gradient would be wrong after it."""
        if self.requires_grad and recording.get():
            raise RuntimeError(
                "a tensor that requires a gradient cannot be changed in place, as the change would "
                "not be recorded: write it out of place, as in y = x * 2, or, where no gradient "
                "shall see it (an initial value, an update), change it inside no_grad()"
            )
        Version.now += 1
        self._own_version().changed = Version.now

    def share_version(self, other: Instrumentation) -> None:
        """Share the version of `other`, whose memory this tensor shares."""
        self.version = other._own_version()

    def _own_version(self) -> Version:
        """Return the version of this memory, to change it or to share it."""
        if self.version is UNCHANGED:
            self.version = Version()
        return self.version


def _array(value: Any) -> Any:
    return value.data if isinstance(value, Instrumentation) else value
