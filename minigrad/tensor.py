"""The core: `Tensor`, an array that records how it was computed, and the walk back through it.

Follow `(a + b).backward()`. `Tensor.__add__` calls `apply`, which computes the value and keeps the
op's rule. `Tensor.backward` calls `cotangents`, which calls `walk`. The op and its rule are `add`
in `elementwise.py`, and the rule calls `unbroadcast` in `broadcasting.py`.

No module that is imported here imports this one. Three of them hold the other methods of `Tensor`:
`methods`, `array_interface`, and `instrumentation` for hooks, changes in place and traces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad import elementwise
from minigrad.array_interface import ArrayInterface
from minigrad.instrumentation import Instrumentation, instrumented
from minigrad.methods import Methods
from minigrad.modes import recording
from minigrad.precision import HALF, in_single
from minigrad.types import Array, Constant, Cotangents, Recorded, Vjp


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

    def _fill(self, data: Array, requires_grad: bool = False) -> None:
        """Set the fields to those of a leaf."""
        Instrumentation.__init__(self)
        self.data = data
        self.requires_grad = requires_grad
        self.grad: Array | None = None
        self.parents: tuple[Tensor, ...] = ()
        self.vjp: Vjp | None = None
        self.op = ""

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
        totals = cotangents(self, cotangent, retain_graph)
        grads = {node: accumulate(node, node.grad, total) for node, total in totals.items()}
        for node, total in grads.items():
            node.grad = np.asarray(total)

    def detach(self) -> Tensor:
        """Return the same data, detached from the graph."""
        out = _tensor(self.data)
        out.share_version(self)
        return out

    def _apply(self, op: Callable[..., Recorded], *operands: Operand, **options: Any) -> Tensor:
        return apply(op, *(operands or (self,)), **options)

    # ----- Operators -----

    def __add__(self, other: Operand) -> Tensor:
        """`self + other`."""
        return apply(elementwise.add, self, other)

    def __radd__(self, other: Operand) -> Tensor:
        """`other + self`."""
        return apply(elementwise.add, other, self)

    def __sub__(self, other: Operand) -> Tensor:
        """`self - other`."""
        return apply(elementwise.sub, self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        """`other - self`."""
        return apply(elementwise.sub, other, self)

    def __mul__(self, other: Operand) -> Tensor:
        """`self * other`."""
        return apply(elementwise.mul, self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        """`other * self`."""
        return apply(elementwise.mul, other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        """`self / other`."""
        return apply(elementwise.div, self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        """`other / self`."""
        return apply(elementwise.div, other, self)


Operand = Tensor | Constant
"""An operand of an operator."""

_CONSTANTS = (int, float, np.number, np.ndarray)


def tensor(
    data: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf with a copy of `data`: `torch.tensor`, except that floats become float64."""
    return Tensor(data, requires_grad, dtype)


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
    if half and _promoted(operands) == HALF:
        value, vjp = in_single(op, arrays, options)
    else:
        value, vjp = op(*arrays, **options)
    out = _tensor(value)
    if requires_grad and recording.get():
        out.requires_grad, out.parents, out.vjp, out.op = True, tuple(parents), vjp, op.__name__
    if out.data.base is not None:  # a view: a change in place affects both
        for parent in parents:
            if np.may_share_memory(out.data, parent.data):
                out.share_version(parent)
    return out


def _tensor(value: Array) -> Tensor:
    """A leaf around an array that is not copied."""
    out = Tensor.__new__(Tensor)
    out._fill(np.asarray(value))
    return out


def _constant(value: Any, operands: tuple[Operand, ...]) -> Tensor:
    """Return an operand that is not a tensor as one, in the dtype of NumPy's promotion."""
    if not isinstance(value, _CONSTANTS):
        raise TypeError(
            f"a Tensor works with tensors, NumPy arrays and numbers, not with a "
            f"{type(value).__name__}: wrap it, tensor(...)"
        )
    dtype = _promoted((value, *(x for x in operands if isinstance(x, Tensor))))
    if dtype == HALF and isinstance(value, int | float):
        dtype = np.dtype(np.float32)  # a number is not stored, and need not be rounded
    return _tensor(np.array(value, dtype))


def _promoted(operands: Iterable[Operand]) -> np.dtype[Any]:
    """The dtype of NumPy's promotion."""
    return np.result_type(*[x.data if isinstance(x, Tensor) else x for x in operands])


# ----- Backward: order, multiply, accumulate -----

Visit = Callable[[Tensor, Array], Cotangents]
"""The step at a node: from its complete cotangent to those of its parents."""


def walk(root: Tensor, cotangent: Array, visit: Visit, retain_graph: bool) -> None:
    """Visit each node once, after everything that was computed from it.

    Only then is its cotangent complete: the sum over all of its uses. What `visit` returns is added
    to the parents' cotangents. The graph is freed on the way, unless it is retained.
    """
    totals = {root: cotangent}
    order = topological_order(root)
    visit = instrumented(visit, order)  # adds hooks, checks and a trace; the walk needs none
    while order:
        node = order.pop()
        if node not in totals:
            continue
        g = np.asarray(totals.pop(node))
        for parent, arriving in zip(node.parents, visit(node, g), strict=True):
            if parent.requires_grad and arriving is not None:
                totals[parent] = accumulate(parent, totals.get(parent), arriving)
        if not (retain_graph or node.vjp is None):
            node.parents, node.vjp = (), _freed


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


def cotangents(
    root: Tensor,
    cotangent: ArrayLike | None,
    retain_graph: bool,
    wanted: Collection[Tensor] = (),
) -> dict[Tensor, Array]:
    """Return the cotangents of the leaves, of nodes that retain theirs, and of those `wanted`.

    The arrays are not shared, provided that a rule returns `g`, views of it, or arrays that it does
    not keep. The shape of a gradient is never checked: the rules are responsible for it.
    """
    complete: dict[Tensor, Array] = {}
    taken: set[int] = set()

    def multiply(node: Tensor, g: Array) -> Cotangents:
        """The chain rule at one node: its cotangent times its own derivative."""
        if node.vjp is None:
            complete[node] = _own(g, taken)
            return ()
        if node.retains_grad or node in wanted:
            complete[node] = g.copy()
        return node.vjp(g)

    walk(root, _first_cotangent(root, cotangent), multiply, retain_graph)
    return complete


# ----- Before and after a walk -----


def _first_cotangent(root: Tensor, cotangent: ArrayLike | None) -> Array:
    """Return the cotangent that the walk starts from, checked; 1 by default."""
    if not root.requires_grad:
        raise RuntimeError(
            "this tensor does not require a gradient: create a leaf with requires_grad=True and "
            "compute this tensor from it, outside no_grad()"
        )
    if cotangent is None:
        if root.data.size != 1:
            raise RuntimeError(
                f"a tensor of shape {root.shape} needs a cotangent of that shape; only a tensor "
                "of one element does without: reduce it with sum() or mean()"
            )
        return np.ones_like(root.data)
    cotangent = np.asarray(cotangent)
    if cotangent.shape != root.shape:
        raise ValueError(
            f"the cotangent has shape {cotangent.shape}, but the tensor has shape {root.shape}"
        )
    if not np.can_cast(cotangent.dtype, root.dtype, "same_kind"):
        raise TypeError(
            f"a cotangent of {cotangent.dtype} cannot become {root.dtype}, the tensor's dtype"
        )
    return cotangent.astype(root.dtype)


def _own(g: Array, taken: set[int]) -> Array:
    """Return `g` for a leaf to keep, or a copy if its memory is shared.

    It may be read-only (broadcast by a sum), a part of a larger array, or `taken` by another leaf.
    """
    owner = g if g.base is None else g.base
    owned = isinstance(owner, np.ndarray) and owner.flags.owndata and owner.size == g.size
    if not owned or not g.flags.writeable or id(owner) in taken:
        return g.copy("K")
    taken.add(id(owner))
    return g


def _freed(_: Array) -> Never:
    """The rule of a freed node, so that a second walk does not stop silently."""
    raise RuntimeError(
        "this is a graph that an earlier backward() or grad() has freed: compute the output again "
        "before each, or pass retain_graph=True to the earlier one; or add the outputs up and call "
        "backward() once on their sum"
    )
