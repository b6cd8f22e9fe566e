"""A node of the graph: an array, and how it was computed."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.hooks import Handle, Hook, add_hook
from minigrad.modes import recording
from minigrad.types import Array, Vjp


class Version:
    """When an array was last changed in place. Tensors that show the same memory share one.

    Time is counted in changes, of all tensors together: a node that remembers how many there had
    been when it was recorded can tell, from one number, whether any of its arrays changed since.

    Only `add_`, `mul_`, `copy_` and `tensor[index] = ...` count. What is written into `data` by
    hand is not seen, as in PyTorch: a gradient is then wrong and nothing says so. A new array for
    `data`, which is what an optimizer makes, need not be seen: rules keep the old one.
    """

    now: ClassVar[int] = 0
    changed = 0


UNCHANGED = Version()
"""That of every node which never changed and shares its memory with none: most have no other."""


class Node:
    """A value in the graph: a leaf, or the result of an op.

    A result remembers its parents and the rule (`vjp`) that turns its cotangent into theirs. Rules
    know arrays and no nodes, and nodes know no children: there are no reference cycles.
    """

    __slots__ = (
        "__weakref__",
        "data",
        "grad",
        "hooks",
        "op",
        "parents",
        "recorded",
        "requires_grad",
        "retains_grad",
        "version",
        "vjp",
    )

    def __init__(
        self,
        data: Array,
        requires_grad: bool = False,
        parents: tuple[Node, ...] = (),
        vjp: Vjp | None = None,
        op: str = "",
    ) -> None:
        """A leaf unless it has a `vjp`."""
        self.data = data
        self.requires_grad = requires_grad
        self.grad: Array | None = None
        self.parents = parents
        self.vjp = vjp
        self.op = op
        self.recorded = Version.now
        self.version = UNCHANGED
        self.retains_grad = False
        self.hooks: dict[object, Hook] | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether it was given and not computed. Only leaves get a `grad` without `retain_grad`."""
        return self.vjp is None

    # ----- On the way back -----

    def retain_grad(self) -> None:
        """Let `backward()` fill `grad` also here, where a result has none otherwise.

        Raises RuntimeError where no gradient passes.
        """
        self._check_requires_grad("retain_grad()")
        self.retains_grad = not self.is_leaf

    def register_hook(self, hook: Hook) -> Handle:
        """Call `hook(cotangent)` in each walk, once the cotangent of this tensor is complete.

        It sees this walk's cotangent and not the `grad` of earlier ones. What it returns, unless
        None, goes on in its place. `handle.remove()` takes it away. Raises RuntimeError where no
        gradient passes.
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
    # Not recorded, but counted (see Version), so that a backward that needs old values refuses.

    def add_(self, other: Node | ArrayLike) -> Self:
        """Add `other` to the elements, in place."""
        self._change()
        np.add(self.data, _array(other), out=self.data)
        return self

    def mul_(self, other: Node | ArrayLike) -> Self:
        """Multiply the elements by `other`, in place."""
        self._change()
        np.multiply(self.data, _array(other), out=self.data)
        return self

    def copy_(self, other: Node | ArrayLike) -> Self:
        """Replace the elements by those of `other`, in place."""
        self._change()
        np.copyto(self.data, _array(other))
        return self

    def __setitem__(self, index: Any, other: Node | ArrayLike) -> None:
        """`self[index] = other`, in place, for whatever NumPy takes as an index."""
        self._change()
        parts = index if isinstance(index, tuple) else (index,)
        self.data[tuple(_array(part) for part in parts)] = _array(other)

    def _change(self) -> None:
        """Count a change in place. Raises RuntimeError where a gradient would be wrong after it."""
        if self.requires_grad and recording.get():
            raise RuntimeError(
                "a tensor that requires a gradient cannot be changed in place, as the change would "
                "not be recorded: write it out of place, as in y = x * 2, or, where no gradient "
                "shall see it (an initial value, an update), change it inside no_grad()"
            )
        Version.now += 1
        self.own_version().changed = Version.now

    def own_version(self) -> Version:
        """The version of this memory, to change it or to share it with a view."""
        if self.version is UNCHANGED:
            self.version = Version()
        return self.version

    # ----- As an array -----

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.data.dtype

    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The shape, or the length of one axis (a method, as in PyTorch)."""
        return self.shape if dim is None else self.shape[dim]

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.data)

    def __bool__(self) -> bool:
        """The truth of the only element, not of the length."""
        return bool(self.data)

    def __repr__(self) -> str:
        """The values, the dtype unless it is float64, and the part in the graph."""
        name = type(self).__name__
        notes = [np.array2string(self.data, separator=", ", prefix=f"{name}(")]
        if self.dtype != np.float64:
            notes.append(f"dtype={self.dtype}")
        if self.requires_grad:
            notes.append("requires_grad=True" if self.is_leaf else f"op={self.op}")
        return f"{name}({', '.join(notes)})"

    def numpy(self) -> Array:
        """The array itself, not a copy."""
        return self.data

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """For `np.asarray(tensor)`."""
        return np.array(self.data, dtype, copy=copy)

    def item(self) -> Any:
        """The only element, as a Python number. Raises ValueError if there are more."""
        return self.data.item()


def _array(value: Any) -> Any:
    return value.data if isinstance(value, Node) else value
