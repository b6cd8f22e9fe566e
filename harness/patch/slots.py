"""Properties of places in a tree: where only a name is valid, where a line may end."""

from __future__ import annotations

from harness.patch.tree import Node

# Only a name is valid here, not any expression.
_NAMES_ONLY = {
    ("Attribute", "attr"),
    ("Keyword", "keyword"),
    ("FunctionDef", "name"),
    ("ClassDef", "name"),
    ("Param", "name"),
    ("NameItem", "name"),
    ("ImportAlias", "name"),
    ("ImportAlias", "asname"),
    ("ImportFrom", "module"),
    ("ExceptHandler", "name"),
    ("ExceptStarHandler", "name"),
    ("MatchAs", "name"),
    ("MatchStar", "name"),
    ("MatchMapping", "rest"),
    ("MatchKeywordElement", "key"),
    ("MatchSingleton", "value"),
    ("TypeVar", "name"),
    ("TypeVarTuple", "name"),
    ("ParamSpec", "name"),
}
# Brackets of the syntax around the expression: the code inside may span lines.
_BRACKETED = {
    ("Call", "args"),
    ("Subscript", "slice"),
    ("FunctionDef", "params"),
    ("ClassDef", "args"),
    *((kind, "elements") for kind in ("List", "Set", "Dict")),
    *((kind, slot) for kind in ("ListComp", "SetComp", "DictComp") for slot in ("elt", "for_in")),
    *(("DictComp", slot) for slot in ("key", "value")),
}


def link(root: Node) -> None:
    """Set the place of every node: parent, slot, index, open brackets, whether only names fit."""
    pending = [root]
    while pending:
        node = pending.pop()
        for slot, part in node.parts.items():
            children = part if isinstance(part, tuple) else (part,) if part else ()
            for index, child in enumerate(children):
                child.parent, child.slot, child.index = node, slot, index
                opened = (node.kind, slot) in _BRACKETED or bool(child.parens)
                child.bracketed = node.bracketed or opened
                dotted_name = node.kind == "Attribute" and not node.is_expression
                if (node.kind, slot) in _NAMES_ONLY or dotted_name:
                    child.is_expression = False
                pending.append(child)
