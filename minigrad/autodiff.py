"""The walk back through the graph.

`cotangents` visits each node once, after everything that was computed from it, so that its
cotangent is complete by then; the node's rule turns it into the cotangents of its parents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Never

import numpy as np
from numpy.typing import ArrayLike

from minigrad.hooks import call_hooks
from minigrad.node import Node, Version
from minigrad.tracing import step, tracing
from minigrad.types import Array, Cotangents


def backward(root: Node, cotangent: ArrayLike | None = None, retain_graph: bool = False) -> None:
    """Add to each leaf's `grad` its share of `cotangent`; also where a node retains its gradient.

    The gradients are handed over at the very end: if a rule or a hook fails, no `grad` has changed.
    """
    totals = cotangents(root, cotangent, retain_graph)
    grads = {node: accumulate(node, node.grad, total) for node, total in totals.items()}
    for node, total in grads.items():
        node.grad = np.asarray(total)


def grad(
    output: Node,
    inputs: Node | Sequence[Node],
    cotangent: ArrayLike | None = None,
    retain_graph: bool = False,
) -> tuple[Array | None, ...]:
    """The gradients of `output`, weighted by `cotangent`, with regard to `inputs`, as a tuple.

    One array per input, of its shape and dtype; also for an input that is itself a result. None for
    one that the output does not depend on. No tensor's `grad` changes. Raises as `Tensor.backward`.
    """
    inputs = (inputs,) if isinstance(inputs, Node) else inputs
    totals = cotangents(output, cotangent, retain_graph, wanted=set(inputs))
    return tuple([totals.get(node) for node in inputs])


def cotangents(
    root: Node,
    cotangent: ArrayLike | None,
    retain_graph: bool,
    wanted: Collection[Node] = (),
) -> dict[Node, Array]:
    """Walk: the cotangents of the leaves, of nodes that retain theirs, and of those `wanted`.

    Frees the graph on the way, unless it is retained. Nobody else holds the arrays, provided that a
    rule hands on `g`, views, and arrays that it does not keep. That a gradient has the shape of its
    leaf is never checked; the rules see to it.
    """
    totals = {root: _first_cotangent(root, cotangent)}
    complete: dict[Node, Array] = {}
    taken: set[int] = set()
    order = topological_order(root)
    steps = tracing.get()
    indices = {} if steps is None else {node: i for i, node in enumerate(order)}
    while order:
        node = order.pop()
        if node not in totals:
            continue
        g = np.asarray(totals.pop(node))
        if node.hooks:
            g = call_hooks(node.hooks, g)
        handed: Cotangents = ()
        if node.vjp is None:
            complete[node] = _own(g, taken)
        else:
            if node.retains_grad or node in wanted:
                complete[node] = g.copy()
            if node.recorded < Version.now:
                _check_unchanged(node)
            handed = node.vjp(g)
        if steps is not None:
            steps.append(step(node, g, handed, indices))
        for parent, arriving in zip(node.parents, handed, strict=True):
            if parent.requires_grad and arriving is not None:
                totals[parent] = accumulate(parent, totals.get(parent), arriving)
        if not (retain_graph or node.vjp is None):
            node.parents, node.vjp = (), _freed
    return complete


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
    if cotangent.dtype != node.data.dtype:
        cotangent = cotangent.astype(node.data.dtype)
    return cotangent if total is None else total + cotangent


def _own(g: Array, taken: set[int]) -> Array:
    """`g` for a leaf to keep, or a copy where its memory is not all its own.

    It may be read-only (spread by a sum), a part of something larger, or `taken` by another leaf.
    """
    owner = g if g.base is None else g.base
    owned = isinstance(owner, np.ndarray) and owner.flags.owndata and owner.size == g.size
    if not owned or not g.flags.writeable or id(owner) in taken:
        return g.copy("K")
    taken.add(id(owner))
    return g


def _first_cotangent(root: Node, cotangent: ArrayLike | None) -> Array:
    """The cotangent that the walk starts from, checked: 1 where none is given."""
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


def _check_unchanged(node: Node) -> None:
    """Raise RuntimeError if an operand or the result of `node` was changed in place since.

    Which of these values the rule needs, it alone knows; so any of them counts.
    """
    for name, value in [*(("an operand", parent) for parent in node.parents), ("the result", node)]:
        if value.version.changed > node.recorded:
            raise RuntimeError(
                f"{name} of {node.op}, of shape {value.shape}, was changed in place before the "
                "backward() that needs it: call backward() first, or change a copy"
            )


def _freed(_: Array) -> Never:
    """The rule of a node that has been walked, so that a second walk does not stop in silence."""
    raise RuntimeError(
        "this is a graph that an earlier backward() or grad() has freed: compute the output again "
        "before each, or pass retain_graph=True to the earlier one; or add the outputs up and call "
        "backward() once on their sum"
    )
