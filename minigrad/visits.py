"""What surrounds the walk: checks, hooks, traces, and the arrays that a caller gets.

Of this, gradients need only one line, in which `multiply` calls the rule of a node. Around it,
`multiply` runs hooks, refuses values that were changed in place, and records a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Never, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from minigrad.array_interface import ArrayInterface
from minigrad.hooks import call_hooks
from minigrad.instrumentation import Instrumentation
from minigrad.tracing import Step, tracing
from minigrad.types import Array, Cotangents
from minigrad.versions import Version

N = TypeVar("N", bound=Instrumentation)


def first_cotangent(root: ArrayInterface, cotangent: ArrayLike | None) -> Array:
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


def visitor(
    order: Sequence[N], wanted: Collection[N], kept: dict[N, Array]
) -> Callable[[N, Array], Cotangents]:
    """Return the function that visits a node of a walk through `order`: `multiply(node, g)`.

    It adds to `kept` the cotangents of the leaves, of nodes that retain theirs, and of those
    `wanted`. The arrays are not shared, provided that a rule returns `g`, views of it, or arrays
    that it does not keep. The shape of a gradient is never checked: rules are responsible for it.
    """
    taken: set[int] = set()
    steps = tracing.get()
    indices: dict[Instrumentation, int] = {}
    if steps is not None:
        indices = {node: i for i, node in enumerate(order)}

    def multiply(node: N, g: Array) -> Cotangents:
        """The chain rule: the complete cotangent of `node` times its own derivative.

        Hooks run first, as they may replace the cotangent. A visit that raises records no step.
        """
        if node.hooks:
            g = call_hooks(node.hooks, g)
        if node.recorded < Version.now:
            _check_unchanged(node)
        cotangents: Cotangents = ()
        if node.vjp is None:
            kept[node] = _own(g, taken)
        else:
            if node.retains_grad or node in wanted:
                kept[node] = g.copy()
            cotangents = node.vjp(g)
        if steps is not None:
            steps.append(_step(node, g, cotangents, indices))
        return cotangents

    return multiply


def freed(_: Array) -> Never:
    """The rule of a freed node, so that a second walk does not stop silently."""
    raise RuntimeError(
        "this is a graph that an earlier backward() or grad() has freed: compute the output again "
        "before each, or pass retain_graph=True to the earlier one; or add the outputs up and call "
        "backward() once on their sum"
    )


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


def _check_unchanged(node: Instrumentation) -> None:
    """Raise RuntimeError if an operand or the result of `node` was later changed in place.

    Only the rule knows which of these values it needs, so any of them counts. A leaf has no rule.
    """
    if node.vjp is None:
        return
    for name, value in [*(("an operand", parent) for parent in node.parents), ("the result", node)]:
        if value.version.changed > node.recorded:
            raise RuntimeError(
                f"{name} of {node.op}, of shape {value.data.shape}, was changed in place before "
                "the backward() that needs it: call backward() first, or change a copy"
            )


def _step(
    node: Instrumentation, g: Array, handed: Cotangents, indices: dict[Instrumentation, int]
) -> Step:
    """Return what `node` received and passed on."""
    parents = tuple(indices.get(parent) for parent in node.parents)
    copies = tuple(None if array is None else array.copy() for array in handed)
    return Step(indices[node], node.op, parents, node.data.copy(), g.copy(), copies)
