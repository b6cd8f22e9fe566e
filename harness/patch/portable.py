"""Equivalences that let a portable block match engines that its author has not seen.

Three tables: the usual spellings of names, the usual names of the cotangent in a rule, and
equivalent forms of code (isomorphisms, in Coccinelle's terms). Engines add their own names in
`[engine.names]`. The names of ops are in `operations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from harness.patch.match import Siblings, match_node
from harness.patch.operations import OPERATIONS
from harness.patch.renaming import read_pattern, read_statement
from harness.patch.side import Side
from harness.patch.spellings import Names, spellings
from harness.patch.tree import Node

_UNBROADCAST = (
    "unbroadcast",
    "_unbroadcast",
    "unbroadcast_to",
    "_unbroadcast_to",
    "unbroadcast_grad",
    "unbroadcast_data",
    "reduce_broadcast",
    "reverse_broadcast_to",
    "sum_to",
    "sum_to_shape",
    "_sum_to_shape",
    "sum_grad_to_shape",
    "reduce_to",
    "reduce_to_shape",
    "_reshape_gradient",
)
WORDS: dict[str, tuple[str, ...]] = {
    "unbroadcast": (*_UNBROADCAST, *(f"$owner.{name}" for name in _UNBROADCAST)),
    "grad": ("grad", "_grad", "gradient"),
    "Tensor": ("Tensor", "Variable", "Value", "Array", "Scalar", "tensor", "Node"),
    "visited": ("visited", "seen", "_visited", "_seen", "seen_set"),
}
"""Names in the code of a portable block, and their usual spellings."""

COTANGENT = (
    *("g", "gy", "dy", "dz", "ug", "dout", "gout", "grad", "outgrad", "gradient", "cotangent"),
    *("grad_output", "grad_out", "out_grad", "output_grad", "upstream", "upstream_grad"),
    *("$out.grad", "$out._grad", "$out.gradient", "$out.grad.data", "grad.data"),
    *("grad_output.data", "out_grad.data", "self._accumulated_grad"),
)
"""The only expressions that `$cotangent` matches."""

MODULES = ("np", "xp", "numpy", "anp", "jnp", "cp", "self.xp", "cls.xp")
"""The only expressions that `$np` matches: modules of array functions."""

ACCUMULATION = (
    (
        "$t += $e",
        "$t = $t + $e",
        "$t = $e + $t",
        "$np.add($t, $e, out=$t)",
        "$np.add($t, $e, $t)",
        "$t = $np.add($t, $e)",
        "$t[...] += $e",
        "$t[:] += $e",
        "$t = $e if $t is None else $t + $e",
        "$t = $t + $e if $t is not None else $e",
        "if $t is None:\n    $t = $e\nelse:\n    $t = $t + $e",
        "if $t is None:\n    $t = $e\nelse:\n    $t += $e",
    ),
)
EQUIVALENT = (
    ("$a * $b", "$b * $a", "$np.multiply($a, $b)", "$np.multiply($b, $a)"),
    ("$a @ $b", "$np.matmul($a, $b)", "$np.dot($a, $b)", "$a.dot($b)", "$a.matmul($b)"),
    (
        "$a.T",
        *("$np.transpose($a)", "$np.swapaxes($a, -1, -2)", "$np.swapaxes($a, -2, -1)"),
        *("$a.transpose()", "$a.transpose(-1, -2)", "$a.transpose(-2, -1)"),
        *("$a.swapaxes(-1, -2)", "$a.swapaxes(-2, -1)", "$a.mT", "$np.matrix_transpose($a)"),
    ),
    ("-$a", "$np.negative($a)", "-1 * $a", "$a * -1"),
    ("$a ** 2", "$np.square($a)", "$np.power($a, 2)", "$a * $a"),
    ("$a ** $k", "$np.power($a, $k)"),
    ("$a.ndim", "$np.ndim($a)", "len($a.shape)"),
    ("$a.sum($...how)", "$np.sum($a, $...how)"),
    ("$a.reshape($...shape)", "$np.reshape($a, $...shape)"),
)
"""Equivalent statements, and expressions: the first of a row in a block matches all of them."""


def names_in_code(names: Names) -> dict[str, tuple[str, ...]]:
    """Return the usual spellings after an engine's own; the names of ops apply only to scopes."""
    ours = {name: spellings(theirs) for name, theirs in names.items() if name not in OPERATIONS}
    return {**ours, **{word: (*ours.get(word, ()), *usual) for word, usual in WORDS.items()}}


def mark(before: Side, after: Side, names: Names) -> None:
    """Add the equivalent forms to the patterns of the before side, which is modified."""
    context = frozenset(before.rows) & frozenset(after.rows)
    adds_again = any(
        _accumulates(node) and not _rows(after, node) <= context for node in _nodes(after)
    )
    meanings = {
        "cotangent": (*spellings(names.get("cotangent", ())), *COTANGENT),
        "np": (*spellings(names.get("np", ())), *MODULES),
    }
    for node in _nodes(before):
        if node.hole in meanings:
            node.spellings = tuple(map(_spelling, meanings[node.hole]))
            other = _other_factor(node)
            if other is not None and node.hole == "cotangent":
                other.refused = node.spellings
        elif not node.hole and not (adds_again and _accumulates(node)):
            # If the + side accumulates again, the - side matches only the form that it shows.
            node.equivalents = tuple(_equivalents(node))


def _nodes(side: Side) -> Iterator[Node]:
    return side.source.root.walk()


def _rows(side: Side, node: Node) -> frozenset[int]:
    return side.rows_of(node.begin, node.end)


def _accumulates(node: Node) -> bool:
    return match_node(_form("$t += $e"), node) is not None


def _other_factor(node: Node) -> Node | None:
    """Return the hole that a cotangent is multiplied by; two cotangents would be ambiguous."""
    parent = node.parent
    if parent is None or parent.kind != "BinaryOperation" or parent.value != ("Multiply",):
        return None
    return next((child for child in parent.children() if child.hole and child is not node), None)


def _equivalents(node: Node) -> Iterator[tuple[Node, dict[str, tuple[Node, ...]]]]:
    for first, *others in EQUIVALENT if node.is_expression else ACCUMULATION:
        binding = match_node(_form(first), node)
        if binding is not None:
            parts = {hole: _nodes_of(b) for hole, b in binding.items() if isinstance(hole, str)}
            yield from ((_form(other), parts) for other in others)


def _nodes_of(bound: Node | Siblings) -> tuple[Node, ...]:
    return bound.taken if isinstance(bound, Siblings) else (bound,)


@cache
def _form(text: str) -> Node:
    """Return a form of the tables as a pattern, whose `$np` matches only modules."""
    form = read_statement(text) if any(text in row for row in ACCUMULATION) else read_pattern(text)
    for node in form.walk():
        if node.hole == "np":
            node.spellings = tuple(map(_spelling, MODULES))
    return form


_spelling = cache(read_pattern)
