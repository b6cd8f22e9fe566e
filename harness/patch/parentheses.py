"""Where an expression needs parentheses: the precedence table of Python's grammar.

A *slot* is a place for an expression (the left of a ``+``, the iterable of a ``for``). It accepts
any expression that binds at least as tightly as its level, and some forms outside that order: a
bare tuple, ``yield``, ``:=``, a bare generator. A slot that is not in the table accepts only atoms,
which at worst adds an unnecessary pair of parentheses.
"""

from __future__ import annotations

from harness.patch.tree import Node

TEST, OR, AND, NOT, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT = range(1, 12)
UNARY, POWER, AWAIT, ATOM = range(12, 16)

_BINARY = {
    "BitOr": BIT_OR,
    "BitXor": BIT_XOR,
    "BitAnd": BIT_AND,
    "LeftShift": SHIFT,
    "RightShift": SHIFT,
    "Add": SUM,
    "Subtract": SUM,
    "Power": POWER,
}
_LEVELS = {"Lambda": TEST, "IfExp": TEST, "Comparison": COMPARISON, "Await": AWAIT}
_OUTSIDE = {"Tuple": "tuple", "Yield": "yield", "NamedExpr": "walrus", "GeneratorExp": "generator"}

# (kind of the parent, its part): the lowest level, and the other forms allowed without parentheses.
_SLOTS: dict[tuple[str, str], tuple[int, str]] = {
    ("Comparison", "left"): (BIT_OR, ""),
    ("ComparisonTarget", "comparator"): (BIT_OR, ""),
    ("IfExp", "body"): (OR, ""),
    ("IfExp", "test"): (OR, ""),
    ("IfExp", "orelse"): (TEST, ""),
    ("Lambda", "body"): (TEST, ""),
    ("NamedExpr", "value"): (TEST, ""),
    ("Yield", "value"): (TEST, "tuple"),
    ("From", "item"): (TEST, ""),
    ("Call", "args"): (TEST, "walrus"),
    ("ClassDef", "args"): (TEST, ""),
    ("Keyword", "value"): (TEST, ""),
    ("StarredElement", "value"): (BIT_OR, ""),
    ("StarredDictElement", "value"): (BIT_OR, ""),
    ("List", "elements"): (TEST, "walrus"),
    ("Set", "elements"): (TEST, "walrus"),
    ("Tuple", "elements"): (TEST, ""),
    ("DictElement", "key"): (TEST, ""),
    ("DictElement", "value"): (TEST, ""),
    ("Subscript", "slice"): (TEST, "tuple walrus"),
    ("Slice", "lower"): (TEST, ""),
    ("Slice", "upper"): (TEST, ""),
    ("Slice", "step"): (TEST, ""),
    ("ListComp", "elt"): (TEST, "walrus"),
    ("SetComp", "elt"): (TEST, "walrus"),
    ("GeneratorExp", "elt"): (TEST, "walrus"),
    ("DictComp", "key"): (TEST, ""),
    ("DictComp", "value"): (TEST, ""),
    ("CompFor", "target"): (ATOM, "tuple"),
    ("CompFor", "iter"): (OR, ""),
    ("CompIf", "test"): (OR, ""),
    ("Interpolation", "expression"): (OR, ""),
    ("Annotation", "annotation"): (TEST, ""),
    ("Decorator", "decorator"): (TEST, ""),
    ("Param", "default"): (TEST, ""),
    ("Expr", "value"): (TEST, "tuple yield"),
    ("Return", "value"): (TEST, "tuple"),
    ("Assign", "value"): (TEST, "tuple yield"),
    ("AssignTarget", "target"): (ATOM, "tuple"),
    ("AugAssign", "value"): (TEST, "tuple yield"),
    ("AnnAssign", "value"): (TEST, "tuple yield"),
    ("Assert", "test"): (TEST, ""),
    ("Assert", "msg"): (TEST, ""),
    ("Raise", "exc"): (TEST, ""),
    ("Raise", "cause"): (TEST, ""),
    ("If", "test"): (TEST, "walrus"),
    ("Elif", "test"): (TEST, "walrus"),
    ("While", "test"): (TEST, "walrus"),
    ("For", "target"): (ATOM, "tuple"),
    ("For", "iter"): (TEST, "tuple"),
    ("WithItem", "item"): (TEST, ""),
    ("ExceptHandler", "type"): (TEST, ""),
    ("ExceptStarHandler", "type"): (TEST, ""),
    ("Match", "subject"): (TEST, "tuple walrus"),
    ("MatchCase", "guard"): (TEST, "walrus"),
    ("TypeAlias", "value"): (TEST, ""),
}


def missing_pairs(code: Node, place: Node) -> int:
    """The number of pairs that `code` needs besides its own parentheses to replace `place`.

    The parentheses of `place` are assumed to be removed.
    """
    if place.parent is None:
        return 0
    if code.kind == "Tuple" and place.parent.kind == "WithItem":
        return max(0, 2 - len(code.parens))  # in one pair the elements are items of the `with`
    if code.parens:
        return 0
    level, bare = _slot(place, place.parent)
    outside = _OUTSIDE.get(code.kind)
    if outside:
        return outside not in bare.split()
    number = code.kind == "Constant" and code.value[0] == "int"
    if number and (place.parent.kind, place.slot) == ("Attribute", "value"):
        return 1
    return _level(code) < level


def _level(node: Node) -> int:
    operator = str(node.value[0]) if node.value else ""
    if node.kind == "BinaryOperation":
        return _BINARY.get(operator, PRODUCT)
    if node.kind == "Boolean":
        return AND if operator == "And" else OR
    if node.kind == "UnaryOperation":
        return NOT if operator == "Not" else UNARY
    return _LEVELS.get(node.kind, ATOM)


def _slot(place: Node, parent: Node) -> tuple[int, str]:
    if parent.kind == "BinaryOperation":
        level = _level(parent)
        if level == POWER:
            return (AWAIT if place.slot == "left" else UNARY), ""
        return level + (place.slot == "right"), ""
    if parent.kind == "Boolean":
        return _level(parent) + 1, ""
    if parent.kind == "UnaryOperation":
        return _level(parent), ""
    level, bare = _SLOTS.get((parent.kind, place.slot), (ATOM, ""))
    if parent.kind == "Call" and place.slot == "args" and len(place.siblings()) == 1:
        bare += " generator"
    return level, bare
