"""Where the source compares or searches text that people read, instead of a kind."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

PHRASE = re.compile(r"[A-Za-z]{2,}\W* \W*[A-Za-z]{2,}")
"""Two words; a kind, a name or a key has one."""

PART = re.compile(r"[A-Za-z]{2,} | [A-Za-z]{2,}")
"""A word beside a field of an f-string."""

TEXTS = {"complaint", "evidence", "problem", "remedy", "sentence", "template"}
"""The attributes and variables that hold our own sentences."""

MESSAGES = {"Message", "all_of", "either", "joined", "lines", "message", "verbatim"}
"""The functions that make messages."""

SEARCHES = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace"),
    *("rfind", "rindex", "rpartition", "split", "startswith"),
    *("findall", "finditer", "fullmatch", "match", "search", "sub"),
}
"""The methods of strings, and the functions of `re`, that look for a text."""

Values = dict[str, ast.expr]


def comparisons(root: Path) -> Iterator[tuple[str, int, str]]:
    """Each place that compares or searches text: file, line, and what it looks for."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in root.rglob("*.py")}
    values = {_module(path, root): dict(_assigned(tree)) for path, tree in trees.items()}
    # `module.NAME`, of whichever module.
    constants = {f".{name}": value for own in values.values() for name, value in own.items()}
    for _ in range(2):  # an import, also through the face of a room
        for path, tree in trees.items():
            own = values[_module(path, root)]
            own |= {name: v for name, v in _imported(tree, values) if name not in own}
    for path, tree in sorted(trees.items()):
        known = constants | values[_module(path, root)]
        for node in ast.walk(tree):
            for text in _looked_for(node, known):
                yield path.relative_to(root).as_posix(), getattr(node, "lineno", 0), text


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _imported(tree: ast.AST, values: Mapping[str, Values]) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in values:
            for name in node.names:
                if name.name in values[node.module]:
                    yield name.asname or name.name, values[node.module][name.name]


def _looked_for(node: ast.AST, known: Values) -> Iterator[str]:
    """What this node compares, or searches a text for."""
    match node:
        case ast.Compare(left=left, comparators=others):
            yield from _texts_among([left, *others], known)
            if any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops):
                yield from (text for other in others for text in _own(other))
        case ast.MatchValue(value=value):
            yield from _texts_among([value], known)
        case ast.Subscript(value=table, slice=key):
            yield from _keys(table, known)
            yield from _own(key)
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=keys):
            yield from _keys(table, known)
            yield from (text for key in keys for text in _own(key))
        case ast.Call(func=ast.Attribute(value=text, attr=name), args=[_, *_] as arguments) if (
            name in SEARCHES
        ):
            looked_for = arguments[:1] if name in ("replace", "sub") else arguments
            yield from _texts_among([text, *looked_for], known)
            yield from (found for item in (text, *arguments) for found in _own(item))


def _texts_among(items: list[ast.expr], known: Values) -> Iterator[str]:
    for item in items:
        yield from _texts(item, known, set())
        if isinstance(item, ast.Attribute) and item.attr == "template":
            yield from _own(item)


def _texts(item: ast.expr, known: Values, seen: set[str]) -> Iterator[str]:
    """The phrases that an expression may be, or be made of."""
    match item:
        case ast.Constant(value=str(text)) if PHRASE.search(text):
            yield text
        case ast.JoinedStr(values=parts):
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield from (text for text in texts if PART.search(str(text)))
        case ast.Name(id=name) if name in known and name not in seen:
            yield from _texts(known[name], known, {*seen, name})
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (
            module.islower() and name.isupper() and f".{name}" in known
        ):
            yield from _texts(known[f".{name}"], known, seen)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            for one in items:
                yield from _texts(one, known, seen)
        case ast.BinOp(left=left, right=right):
            yield from _texts(left, known, seen)
            yield from _texts(right, known, seen)
        case ast.Call(func=ast.Name(id=name)) if name in MESSAGES:
            yield ast.unparse(item)
        case ast.Call(func=ast.Attribute(attr="compile" | "escape"), args=[pattern, *_]):
            yield from _texts(pattern, known, seen)
        case ast.Call(func=ast.Name(id="frozenset" | "list" | "set" | "tuple"), args=[items]):
            yield from _texts(items, known, seen)


def _keys(table: ast.expr, known: Values) -> Iterator[str]:
    """The phrases among the keys of a table."""
    table = known.get(table.id, table) if isinstance(table, ast.Name) else table
    if isinstance(table, ast.Dict):
        yield from _texts_among([key for key in table.keys if key is not None], known)


def _own(item: ast.expr) -> Iterator[str]:
    """The variable or attribute that holds a sentence of ours, in an expression such as `p[:9]`."""
    match item:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in TEXTS:
            yield ast.unparse(item)
        case ast.Subscript(value=inner) | ast.Call(func=ast.Name(id="str"), args=[inner]):
            yield from _own(inner)
