"""A patch for an engine with other names, and one that fits engines its author has not seen.

A name with one spelling is replaced in the template's text. A name with several becomes a hole that
matches only its spellings, and the + side uses the one that matched.

Portable blocks use three tables: the usual spellings of names, the usual names of the cotangent in
a rule, and equivalent forms of code (isomorphisms, in Coccinelle's terms). Engines add their own
names in `[engine.names]`. The names of ops are in `scope`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from harness.core.errors import UsageError
from harness.core.message import message
from harness.patch.match import Siblings, match_node
from harness.patch.notation import Hunk, Patch, checked
from harness.patch.scope import DEFINITIONS, EngineNames, last_parts, spellings
from harness.patch.side import Side, make_side, read_side
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
    *("d_output", "d_out"),
    *("$out.grad", "$out._grad", "$out.gradient", "$out.grad.data", "grad.data"),
    *("grad_output.data", "out_grad.data", "self._accumulated_grad"),
)
"""The only expressions that `$cotangent` matches."""

MODULES = ("np", "xp", "numpy", "anp", "jnp", "cp", "torch", "self.xp", "cls.xp")
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


def rename(patch: Patch, names: EngineNames) -> Patch:
    """Return the patch for an engine with other names: `names` maps ours to the engine's.

    A dotted name replaces a bare name; where only an identifier is valid (an attribute, a
    definition, a scope), its last part does. With several spellings, code may have any of them, and
    the + side uses the one that matched. Raises `UsageError` for an invalid name.
    """
    _check_names(names)
    hunks = (
        checked(hunk.path, hunk.line, hunk.scope.renamed(names), *_renamed_sides(hunk, names))
        for hunk in patch.hunks
    )
    return replace(patch, hunks=tuple(hunks))


def loosen(
    patch: Patch,
    names: EngineNames,
    gradient_arguments: Mapping[str, int] | None = None,
    cotangents: Sequence[str] | None = None,
) -> Patch:
    """Return the patch of a portable block, for an engine with these names.

    `gradient_arguments` are the positions of the gradient in calls that un-broadcast, as far as
    they are known, by the name of the function; -1 in `g.sum_to(shape)`. `cotangents` are the only
    expressions that `$cotangent` matches, by default the usual ones.

    Code that the tables list as equivalent matches in any of its forms. Raises `UsageError` for an
    invalid name.
    """
    _check_names(names)
    usual = (*spellings(names.get("cotangent", ())), *COTANGENT)
    meanings = {
        "cotangent": tuple(usual if cotangents is None else cotangents),
        "np": (*spellings(names.get("np", ())), *MODULES),
    }
    hunks = (_loosened(hunk, names, gradient_arguments or {}, meanings) for hunk in patch.hunks)
    return replace(patch, hunks=tuple(hunks))


def _check_names(names: EngineNames) -> None:
    """Raise UsageError unless every name is dotted and every entry has at least one."""
    for ours, theirs in names.items():
        if not spellings(theirs):
            raise UsageError(
                message("the engine has no name for `{name}`", name=ours),
                message("write one, or remove `{name}`", name=ours),
            )
        for dotted in spellings(theirs):
            if not all(part.isidentifier() for part in dotted.split(".")):
                raise UsageError(
                    message(
                        "the engine's name for `{name}` is `{dotted}`, which is not a dotted name",
                        name=ours,
                        dotted=dotted,
                    ),
                    "write it as in the engine's code, `_sum_to_shape` or `utils.sum_to`",
                )


def _loosened(
    hunk: Hunk,
    names: EngineNames,
    gradient_arguments: Mapping[str, int],
    meanings: Mapping[str, tuple[str, ...]],
) -> Hunk:
    in_code = _names_in_code(names)
    before, after = _renamed_sides(hunk, in_code)
    _mark_equivalents(before, after, meanings)
    _mark_reducing_calls(before, after, in_code["unbroadcast"], gradient_arguments)
    scope = hunk.scope.renamed({**names, **in_code}).loosened(hunk.scope.text)
    return checked(hunk.path, hunk.line, scope, before, after)


# ----- names -----


def _renamed_sides(hunk: Hunk, names: EngineNames) -> tuple[Side, Side]:
    """Return both sides with an engine's names, as new trees."""
    spelled = {ours: spellings(theirs) for ours, theirs in names.items()}
    several = {ours: options for ours, options in spelled.items() if len(options) > 1}
    first = {ours: options[0] for ours, options in spelled.items()}
    possible = {_hole(ours, bare) for ours in several for bare in (True, False)}
    before = _marked(_replaced(hunk.before, first, possible), several, possible)
    used = possible.intersection(before.holes)
    return before, _marked(_replaced(hunk.after, first, used), several, used)


def _hole(ours: str, bare: bool) -> str:
    """The hole for a name of several spellings: one in expressions, one for bare identifiers."""
    return f"={ours}" if bare else f"=.{ours}"


def _hole_of(node: Node) -> str:
    return _hole(str(node.value[0]), node.is_expression)


def _replaced(side: Side, names: Mapping[str, str], holes: Collection[str]) -> Side:
    """The side with each name replaced by the engine's, except the names that become holes."""
    data = side.source.data
    for node in sorted(side.source.root.walk(), key=lambda node: -node.start):
        theirs = names.get(str(node.value[0])) if node.kind == "Name" else None
        if theirs and _hole_of(node) not in holes:
            new = theirs if node.is_expression else theirs.rpartition(".")[2]
            data = data[: node.start] + new.encode() + data[node.end :]
    return make_side(data.decode(), side.rows)


def _marked(side: Side, several: Mapping[str, tuple[str, ...]], holes: Collection[str]) -> Side:
    marked = dict(side.holes)
    for node in side.source.root.walk():
        ours = str(node.value[0]) if node.kind == "Name" else ""
        if ours in several and _hole_of(node) in holes:
            node.hole = _hole_of(node)
            node.spellings = _patterns(several[ours], node.is_expression)
            marked.setdefault(node.hole, node)
    return replace(side, holes=marked)


@cache
def _patterns(theirs: tuple[str, ...], bare: bool) -> tuple[Node, ...]:
    return tuple(map(_read_pattern, theirs if bare else last_parts(theirs)))


# ----- equivalent forms -----


def _names_in_code(names: EngineNames) -> dict[str, tuple[str, ...]]:
    """Return the usual spellings after an engine's own; the names of ops apply only to scopes."""
    ours = {name: spellings(theirs) for name, theirs in names.items() if name not in DEFINITIONS}
    return {**ours, **{word: (*ours.get(word, ()), *usual) for word, usual in WORDS.items()}}


def _mark_equivalents(before: Side, after: Side, meanings: Mapping[str, tuple[str, ...]]) -> None:
    """Add the equivalent forms to the patterns of the before side, which is modified."""
    context = frozenset(before.rows) & frozenset(after.rows)
    adds_again = any(
        _accumulates(node) and not after.rows_of_node(node) <= context for node in _nodes(after)
    )
    for node in _nodes(before):
        if node.hole is not None and node.hole in meanings:
            node.spellings = tuple(map(_spelling, meanings[node.hole]))
            other = _other_factor(node)
            if other is not None and node.hole == "cotangent":
                other.refused = node.spellings
        elif not node.hole and not (adds_again and _accumulates(node)):
            # If the + side accumulates again, the - side matches only the form that it shows.
            node.equivalents = tuple(_equivalents(node))


def _mark_reducing_calls(
    before: Side, after: Side, theirs: tuple[str, ...], places: Mapping[str, int]
) -> None:
    """Let calls that un-broadcast match only with the gradient where the engine has it."""
    written = frozenset(after.rows) - frozenset(before.rows)
    kept = not any(
        _is_reducer(node) and after.rows_of_node(node) & written for node in _nodes(after)
    )
    for call in _nodes(before):
        if call.kind != "Call":
            continue
        function, arguments = call.parts["func"], call.block("args")
        assert isinstance(function, Node)
        method = function.parts.get("attr")
        reducer = method if isinstance(method, Node) else function
        if not _is_reducer(reducer):
            continue
        on_gradient = reducer is not function
        place = RECEIVER if on_gradient else 0
        usual = tuple(n for n in theirs if places.get(n.rpartition(".")[2], place) == place)
        reducer.spellings = _patterns(usual, not on_gradient) or (_form("None"),)
        gradient = function.parts["value"] if on_gradient else arguments[0]
        assert isinstance(gradient, Node)
        others = arguments if on_gradient else arguments[1:]
        parts = {"g": (gradient,), "how": others, "...how": others}
        call.equivalents += tuple(
            (form, {hole: parts[hole] for hole in ("g", "how", "...how") if f"${hole}" in text})
            for name in dict.fromkeys(last_parts(theirs) if kept else ())
            for text in _REDUCING_CALLS.get(places.get(name, UNKNOWN), ())
            for form in [_form(text.replace("NAME", name))]
        )


RECEIVER, UNKNOWN = -1, -2
"""Positions of the gradient: in `g.sum_to(shape)`, and in calls that were not observed."""

_REDUCING_CALLS: dict[int, tuple[str, ...]] = {
    RECEIVER: ("$g.NAME($...how)",),
    0: ("$how.NAME($g)",),
    1: ("NAME($how, $g)", "$owner.NAME($how, $g)"),
}
"""Calls that un-broadcast `$g`, by its position, besides `NAME($g, $...how)`."""


def _is_reducer(node: Node) -> bool:
    return (node.hole or "").lstrip("=.") == "unbroadcast"


def _nodes(side: Side) -> Iterator[Node]:
    return side.source.root.walk()


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
            parts = {
                hole: bound.taken if isinstance(bound, Siblings) else (bound,)
                for hole, bound in binding.items()
                if isinstance(hole, str)
            }
            yield from ((_form(other), parts) for other in others)


@cache
def _form(text: str) -> Node:
    """Return a form of the tables as a pattern, whose `$np` matches only modules."""
    form = (
        _read_statement(text) if any(text in row for row in ACCUMULATION) else _read_pattern(text)
    )
    for node in form.walk():
        if node.hole == "np":
            node.spellings = tuple(map(_spelling, MODULES))
    return form


def _read_pattern(text: str) -> Node:
    """One expression of the notation as a pattern."""
    value = _read_statement(text).parts["value"]
    assert isinstance(value, Node)
    return value


def _read_statement(text: str) -> Node:
    """One statement of the notation as a pattern."""
    return read_side([(0, line) for line in text.split("\n")], 0, "-").body[0]


_spelling = cache(_read_pattern)
