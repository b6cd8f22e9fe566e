"""The walk back through the graph.

`backward` visits each node once, after everything that was computed from it, so that its cotangent
is complete by then; the node's rule turns it into the cotangents of its parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Never

import numpy as np
from numpy.typing import ArrayLike

from minigrad.node import Node
from minigrad.types import Array

recording: ContextVar[bool] = ContextVar("recording", default=True)
"""Whether ops are recorded: not inside `no_grad`."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Record no graph inside; `with no_grad():` or `@no_grad()`. Holds for this thread only."""
    token = recording.set(False)
    try:
        yield
    finally:
        recording.reset(token)


def topological_order(root: Node) -> list[Node]:
    """The nodes below `root` that require a gradient, parents before children, `root` last.

    Depth first, in the order of the operands: the same program gives the same order. A loop and not
    a recursion, as graphs get deeper than Python's stack.
    """
    order: list[Node] = []
    visited: set[Node] = set()
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


def accumulate(node: Node, total: Array | None, cotangent: Array) -> Array:
    """Add a cotangent that arrives at `node` to the `total` so far (None: the first).

    Out of place: the same array may be on its way to another node too.
    """
    cotangent = cotangent.astype(node.data.dtype, copy=False)
    return cotangent if total is None else total + cotangent


def backward(root: Node, cotangent: ArrayLike | None = None) -> None:
    """Add to each leaf's `grad` its share of `cotangent`, and free the graph on the way.

    The gradients are handed over at the very end: if a rule fails, no leaf has changed. That a
    gradient has the shape of its leaf is never checked; the rules see to it.
    """
    totals = {root: accumulate(root, None, _first_cotangent(root, cotangent))}
    for node in reversed(topological_order(root)):
        if node.vjp is None or node not in totals:
            continue
        g = np.asarray(totals.pop(node))
        for parent, arriving in zip(node.parents, node.vjp(g), strict=True):
            if parent.requires_grad and arriving is not None:
                totals[parent] = accumulate(parent, totals.get(parent), arriving)
        node.parents, node.vjp = (), _freed

    # Only leaves are left. A total may be shared, say by both operands of a sum: leaves get copies.
    grads = {leaf: accumulate(leaf, leaf.grad, total) for leaf, total in totals.items()}
    for leaf, grad in grads.items():
        leaf.grad = np.array(grad, copy=True if grad is totals[leaf] else None)


def _first_cotangent(root: Node, cotangent: ArrayLike | None) -> Array:
    """The cotangent that the walk starts from, checked: 1 where none is given."""
    if not root.requires_grad:
        raise RuntimeError(
            "backward() on a tensor that does not require a gradient: create a leaf with "
            "requires_grad=True and compute this tensor from it, outside no_grad()"
        )
    if cotangent is None:
        if root.data.size != 1:
            raise RuntimeError(
                f"backward() on a tensor of shape {root.shape} needs a cotangent of that shape; "
                "only a tensor of one element does without: reduce it with sum() or mean()"
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
    return cotangent


def _freed(_: Array) -> Never:
    """The rule of a node that has been walked, so that a second walk does not stop in silence."""
    raise RuntimeError(
        "backward() reached a graph that an earlier backward() has freed: compute the output again "
        "before each backward(), or add the outputs up and call backward() once on their sum"
    )
