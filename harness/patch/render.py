"""Filling a template for a source: bindings verbatim, with parentheses where they are needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.patch.match import Binding, Siblings, code_of
from harness.patch.side import Side, quiet_parse
from harness.patch.tree import Node, Source


class UnfitBinding(Exception):
    """A metavariable is used where the code bound to it is not valid."""


@dataclass(frozen=True)
class Template:
    """An after side with the binding of one match."""

    side: Side
    binding: Binding
    source: Source

    def expression(self, place: Node) -> str:
        """The after expression as written in place of a source's node."""
        root = self.side.expression
        assert root is not None
        text = self.text(*root.outer, self.source.indent_at(place.start))
        bound = self.binding.get(root.hole or "")
        code = bound if isinstance(bound, Node) and not root.parens else root
        remaining = len(place.parens) - _loses_parentheses(place)
        in_string = place.parent is not None and place.parent.kind == "Interpolation"
        spills = not place.bracketed and _spills(text)
        pairs = max(missing_pairs(code, place), spills or (in_string and text.startswith("{")))
        return _wrapped(text, pairs - remaining)

    def text(self, start: int, end: int, indent: str) -> str:
        """The filled text between two offsets of the template, indented by `indent`."""
        out, at = "", start
        for node in self._holes(start, end):
            cut_from, cut_to, filling = self._filling(node)
            out += self._reindented(at, max(at, cut_from), start, indent) + filling
            at = cut_to
        return out + self._reindented(at, end, start, indent)

    def _holes(self, start: int, end: int) -> Iterator[Node]:
        pending = [self.side.source.root]
        holes = []
        while pending:
            node = pending.pop()
            if node.hole and node.hole != "...":
                holes.append(node)
            else:
                pending.extend(node.children())
        inside = [node for node in holes if start <= node.start and node.end <= end]
        return iter(sorted(inside, key=lambda node: node.start))

    def _filling(self, node: Node) -> tuple[int, int, str]:
        """The template's span that a metavariable's text replaces, and that text."""
        bound = self.binding[node.hole or ""]
        if isinstance(bound, Siblings):
            return self._filled_run(node, bound)
        text = code_of(self.source, bound)
        if not node.is_expression and bound.kind != "Name":
            raise UnfitBinding(f"`${node.hole}` stands for `{text}`, and only a name fits here")
        if not bound.is_expression and node.is_expression and bound.kind != "Name":
            raise UnfitBinding(f"`${node.hole}` stands for `{text}`, which is not an expression")
        if not node.parens and node is not self.side.expression:
            spills = not node.bracketed and _spills(text)
            text = _wrapped(text, max(missing_pairs(bound, node), spills))
        return node.start, node.end, text

    def _filled_run(self, node: Node, run: Siblings) -> tuple[int, int, str]:
        siblings = node.siblings()
        text = code_of(self.source, run)
        if len(run.taken) == 1:
            text = _wrapped(text, missing_pairs(run.taken[0], node))
        if node.parent is not None and node.parent.kind == "Tuple":
            self._refuse_lone_element(node.parent)
            if self.side.expression is None and not node.bracketed and _spills(text):
                elements = [code_of(self.source, element) for element in run.taken]
                text = ", ".join(_wrapped(element, _spills(element)) for element in elements)
        if text or len(siblings) == 1:
            return node.start, node.end, text
        data = self.side.source.data
        following = re.compile(rb"\s*,[ \t]*").match(data, node.end)
        if following:
            return node.start, following.end(), ""
        before = re.compile(rb",\s*\Z").search(data[: node.start])
        return (before.start() if before else node.start), node.end, ""

    def _refuse_lone_element(self, parent: Node) -> None:
        """Raise for ``(x, $...rest)`` with an empty rest, which would lose the tuple's comma."""
        count = 0
        for element in parent.block("elements"):
            bound = self.binding.get(element.hole or "")
            count += len(bound.taken) if isinstance(bound, Siblings) else 1
        if count == 1 and len(parent.block("elements")) > 1:
            raise UnfitBinding("this template leaves a tuple with a single element")

    def _reindented(self, start: int, end: int, origin: int, indent: str) -> str:
        """Template text with the source's indentation and line breaks."""
        source, depths = self.side.source, self.side.depths
        top = depths[source.line_of(origin)][0]
        lines = source.slice(start, end).split("\n")
        for i, line in enumerate(lines[1:], 1):
            number = source.line_of(start) + i
            if number not in self.side.inside_strings:
                depth, width = depths[number]
                code = line.lstrip(" \t")
                extra = line[len(width) : len(line) - len(code)]
                lines[i] = indent + self.source.unit * (depth - top) + extra + code
        return self.source.newline.join(lines)


def replaced_span(node: Node) -> tuple[int, int]:
    """The span that a replacement removes; it keeps most of the expression's own parentheses."""
    return node.parens[0] if _loses_parentheses(node) else (node.start, node.end)


def _loses_parentheses(node: Node) -> bool:
    """Whether one pair of parentheses is part of the expression's syntax."""
    return bool(node.parens) and node.kind in ("Tuple", "GeneratorExp")


def _wrapped(text: str, pairs: int) -> str:
    return "(" * pairs + text + ")" * pairs


def _spills(text: str) -> bool:
    """Whether the text has a line break outside all brackets."""
    if "\n" not in text and "\r" not in text:
        return False
    try:
        return len(quiet_parse(f"_ = {text}\n").body) > 1
    except SyntaxError:
        return True


# ----- parentheses: the precedence table of Python's grammar -----

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

# A *slot* is a place for an expression (the left of a ``+``, the iterable of a ``for``). It accepts
# any expression that binds at least as tightly as its level, and some forms outside that order: a
# bare tuple, ``yield``, ``:=``, a bare generator. A slot that is not in the table accepts only
# atoms, which at worst adds an unnecessary pair of parentheses.
#
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
