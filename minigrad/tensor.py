"""The core: `Tensor`, an array that records how it was computed, and the backward walk.

Follow `(a + b).backward()`. The operator, one line of `methods.py`, calls `apply`, which computes
the value and keeps the op's rule. `Tensor.backward` calls `walk`. The op and its rule are `add` in
`elementwise.py`, and the rule calls `unbroadcast` in `broadcasting.py`.

No module that is imported here imports this one. Three of them hold the other methods of `Tensor`:
`methods`, `array_interface`, and `instrumentation` for hooks and changes in place. `visits`
has the checks, hooks and traces of the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.array_interface import ArrayInterface
from minigrad.instrumentation import Instrumentation
from minigrad.methods import Methods
from minigrad.modes import recording
from minigrad.precision import HALF, constant, in_single
from minigrad.types import Array, Constant, Recorded, Vjp
from minigrad.versions import UNCHANGED, Version
from minigrad.visits import first_cotangent, freed, visitor

# ----- Forward: compute, and record -----


def apply(op: Callable[..., Recorded], *operands: Operand, **options: Any) -> Tensor:
    """Compute an op on the operands' arrays, and record it if a gradient is required."""
    parents: list[Tensor] = []
    arrays: list[Array] = []
    requires_grad = False
    half = False
    for operand in operands:
        parent = operand if isinstance(operand, Tensor) else _constant(operand, operands)
        parents.append(parent)
        arrays.append(parent.data)
        requires_grad = requires_grad or parent.requires_grad
        half = half or parent.data.dtype == HALF
    if half and np.result_type(*[x.data if isinstance(x, Tensor) else x for x in operands]) == HALF:
        value, vjp = in_single(op, arrays, options)
    else:
        value, vjp = op(*arrays, **options)
    out = Tensor.__new__(Tensor)
    if requires_grad and recording.get():
        out._fill(value, True, tuple(parents), vjp, op.__name__)
    else:
        out._fill(value)
    if out.data.base is not None:  # a view: a change in place affects both
        for parent in parents:
            if np.may_share_memory(out.data, parent.data):
                out.share_version(parent)
    return out


class Tensor(Methods, ArrayInterface, Instrumentation):
    """An array in the graph. `data` is copied; floats become float64, integers stay integers.

    Operators broadcast, and promote dtypes as in NumPy: a Python number never changes a float
    tensor's dtype, an array does. `grad` is an array of the tensor's dtype, or None before the
    first `backward()`.

    The result of an op stores its `parents`, which are the operands, and the op's rule (`vjp`),
    which turns its cotangent into theirs. A tensor does not store its children, and a rule uses
    only arrays, so there are no reference cycles.

    Raises TypeError for a tensor of integers or booleans that requires a gradient.
    """

    __slots__ = ("data", "grad", "op", "parents", "requires_grad", "vjp")
    __array_ufunc__ = None  # lets `array + tensor` reach Tensor.__radd__

    _apply = staticmethod(apply)

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
    ) -> None:
        """A new leaf."""
        self._fill(np.array(data, dtype), requires_grad)
        if requires_grad and self.dtype.kind != "f":
            raise TypeError(
                f"only floating-point tensors can require a gradient, and this one is {self.dtype}:"
                " write 1.0 instead of 1, or pass dtype=float"
            )

    def _fill(
        self,
        data: Array,
        requires_grad: bool = False,
        parents: tuple[Tensor, ...] = (),
        vjp: Vjp | None = None,
        op: str = "",
    ) -> None:
        """Set every field; by default to those of a leaf."""
        self.data, self.requires_grad = np.asarray(data), requires_grad
        self.grad: Array | None = None
        self.parents: tuple[Tensor, ...] = parents
        self.vjp, self.op = vjp, op
        self.hooks, self.retains_grad = None, False
        self.recorded, self.version = Version.now, UNCHANGED

    @property
    def is_leaf(self) -> bool:
        """Whether it was not computed by an op. Only leaves get a `grad` without `retain_grad`."""
        return self.vjp is None

    def backward(self, cotangent: ArrayLike | None = None, retain_graph: bool = False) -> None:
        """Add the gradients of this tensor, weighted by `cotangent`, to the leaves' `grad`.

        `cotangent` has the tensor's shape, and is optional for a tensor of one element. A graph can
        be used once, unless it is retained. Raises RuntimeError if there is nothing to
        differentiate, if the graph has been freed, or if a value that it needs was changed in
        place; ValueError or TypeError for a cotangent of another shape or kind. If it raises, no
        `grad` has changed: they are set last.
        """
        totals = walk(self, cotangent, retain_graph)
        grads = {node: accumulate(node, node.grad, total) for node, total in totals.items()}
        for node, total in grads.items():
            node.grad = np.asarray(total)

    def detach(self) -> Tensor:
        """Return the same data, detached from the graph."""
        out = _tensor(self.data)
        out.share_version(self)
        return out


Operand = Tensor | Constant
"""An operand of an op."""


def tensor(
    data: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf with a copy of `data`: `torch.tensor`, except that floats become float64."""
    return Tensor(data, requires_grad, dtype)


def _tensor(value: Array) -> Tensor:
    """A leaf around an array that is not copied."""
    out = Tensor.__new__(Tensor)
    out._fill(value)
    return out


def _constant(value: Any, operands: tuple[Operand, ...]) -> Tensor:
    """Return a constant operand as a tensor; the tensors among `operands` determine its dtype."""
    return _tensor(constant(value, [x.data for x in operands if isinstance(x, Tensor)]))


# ----- Backward: multiply, accumulate, next -----


def walk(
    root: Tensor,
    cotangent: ArrayLike | None,
    retain_graph: bool,
    wanted: Collection[Tensor] = (),
) -> dict[Tensor, Array]:
    """Return the cotangents of the leaves, of nodes that retain theirs, and of those `wanted`.

    A node is visited once, after everything that was computed from it. Only then is its cotangent
    complete: the sum over all of its uses. What its rule returns is added to the totals of its
    parents. The graph is freed on the way, unless it is retained.
    """
    totals = {root: first_cotangent(root, cotangent)}
    order = topological_order(root)
    kept: dict[Tensor, Array] = {}
    multiply = visitor(order, wanted, kept)
    while order:
        node = order.pop()
        if node not in totals:
            continue
        g = np.asarray(totals.pop(node))
        for parent, arriving in zip(node.parents, multiply(node, g), strict=True):
            if parent.requires_grad and arriving is not None:
                totals[parent] = accumulate(parent, totals.get(parent), arriving)
        if not (retain_graph or node.vjp is None):
            node.parents, node.vjp = (), freed
    return kept


def topological_order(root: Tensor) -> list[Tensor]:
    """Return the nodes below `root` that require a gradient, parents before children, `root` last.

    Depth first, in the order of the operands: the same program gives the same order. A loop, not a
    recursion, as graphs can be deeper than Python's stack.
    """
    order: list[Tensor] = []
    visited: set[Tensor] = set()
    stack = [(root, False)]
    while stack:
        node, parents_are_done = stack.pop()
        if parents_are_done:
            order.append(node)
            continue
        if node in visited:
            continue
        visited.add(node)
        stack.append((node, True))
        for parent in reversed(node.parents):
            if parent.requires_grad:
                stack.append((parent, False))
    return order


def accumulate(node: Tensor, total: Array | None, cotangent: Array) -> Array:
    """Add a cotangent that arrives at `node` to the `total` so far (None: the first).

    Out of place, as the same array may also be the cotangent of another node.
    """
    if cotangent.dtype != node.data.dtype:
        cotangent = cotangent.astype(node.data.dtype)
    return cotangent if total is None else total + cotangent
