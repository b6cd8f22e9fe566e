"""The patch against an oracle: the same substitution on Python's own syntax tree.

The code is a fixed sample of the standard library; Hypothesis chooses the nodes.
"""

from __future__ import annotations

import ast
import copy
import functools
import sysconfig
import warnings
from collections import Counter
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from harness.core.errors import DoesNotApply, HunkError
from harness.core.site import Hooks
from harness.engines.instrumentation import compile_marked
from harness.patch import Patched, apply_patch, parse_patch
from tests.examples import examples

SHORT = [
    *("bisect.py", "colorsys.py", "copy.py", "queue.py", "shlex.py", "string.py", "textwrap.py"),
    *("types.py", "asyncio/locks.py", "json/decoder.py", "json/encoder.py"),
]
MODULES = [
    *("ast.py", "calendar.py", "contextlib.py", "dataclasses.py", "fractions.py", "functools.py"),
    *("heapq.py", "random.py", "statistics.py", "weakref.py", "asyncio/tasks.py", *SHORT),
]
DRAWN = MODULES if settings.default.max_examples >= 100 else SHORT
"""Only short modules in the light profile: LibCST takes much longer for a long one."""

REPLACEMENTS = [
    *("zz", "zz + 1", "-zz", "not zz", "zz ** 2", "zz if yy else xx", "lambda: zz", "zz, yy"),
    *("(zz,)", "[zz]", "zz.yy", "zz(yy)", "zz[yy]", "zz or yy", "zz and yy", "zz < yy", "*zz, yy"),
    *("(zz for zz in yy)", "(zz := yy)", "'zz' 'yy'", "1", "2.5", "zz @ yy", "{zz}", "{zz: yy}"),
]
WRAPPERS = [
    *("$a * 2", "2 ** $a", "$a ** 2", "-$a", "not $a", "$a.zz", "zz($a)", "$a(zz)", "$a[zz]"),
    *("zz[$a]", "$a if zz else yy", "zz if $a else yy", "zz if yy else $a", "lambda: $a", "($a)"),
    *("[$a]", "{$a}", "{zz: $a}", "$a,", "zz, $a", "$a or zz", "zz and $a", "$a < zz", "zz in $a"),
    *("[zz for zz in $a]", "[$a for zz in yy]", "[zz for zz in yy if $a]", "zz(yy, $a)", "$a"),
    *("zz(yy=$a)", "zz(*$a)", "[*$a]", "(zz := $a)", "{**$a}", "zz[$a:]", "zz - $a", "$a - zz"),
]
STATEMENTS = [
    "zz()",
    "return",
    "if zz:\n    yy()",
    "zz = yy; xx()",
    "for zz in yy:\n    pass\nxx()",
]
common = settings(
    examples(40),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@functools.cache
def text_of(module: str) -> str:
    return (Path(sysconfig.get_path("stdlib")) / module).read_text(encoding="utf-8")


@functools.cache
def tree_of(module: str) -> ast.Module:
    return parse(text_of(module))


def parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


@functools.cache
def nodes_of(module: str, kind: type[ast.AST]) -> list[ast.AST]:
    """All nodes of a kind except those in f-strings, where Python 3.11 cannot nest quotes."""
    found, pending = [], [tree_of(module)]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            found.append(node)
        if not isinstance(node, ast.JoinedStr | ast.pattern):
            pending.extend(ast.iter_child_nodes(node))
    return found


def pick(data: st.DataObject, kind: type[ast.AST]) -> tuple[str, ast.AST]:
    module = data.draw(st.sampled_from(DRAWN))
    found = [n for n in nodes_of(module, kind) if not isinstance(n, ast.Slice | ast.Starred)]
    assume(found)
    return module, found[data.draw(st.integers(0, len(found) - 1))]


def signed(sign: str, code: str) -> str:
    return "".join(f"{sign}{line}\n" for line in code.split("\n")) if code else ""


def run(before: str, after: str, module: str) -> Patched:
    """Apply a hunk; skip examples whose result is not valid in that place."""
    assume("\n\n" not in before)
    text = text_of(module)
    patch = parse_patch("@@ @@\n" + signed("-", before) + signed("+", after), path="p.md", line=1)
    try:
        patched = apply_patch(patch, {module: text})
    except HunkError as error:
        assume("is not Python" not in str(error) and "means the same" not in str(error))
        assume("change the same place" not in str(error))
        raise
    data = patched.sources[module].encode()
    for site in reversed(patched.sites):
        data = data[: site.start] + site.before.encode() + data[site.end :]
    assert data.decode() == text
    return patched


def same(one: object, other: object) -> bool:
    """Whether two trees are equal apart from positions, contexts and the `u` of a string."""
    return equal(one, other, None)


# ----- expressions -----


class Substitute(ast.NodeTransformer):
    """Replaces the outermost matching nodes, independently of the patch package."""

    def __init__(self, pattern: ast.expr, template: str) -> None:
        self.pattern, self.template = pattern, template
        self.count = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr):
            bound: dict[str, ast.AST] = {}
            if equal(self.pattern, node, bound):
                self.count += 1
                made = ast.parse(self.template.replace("$", "hole_").strip()).body[0]
                assert isinstance(made, ast.Expr)
                return Fill({**bound, "hole_whole": node}).visit(made.value)
        return self.generic_visit(node)


class Fill(ast.NodeTransformer):
    def __init__(self, bound: dict[str, ast.AST]) -> None:
        self.bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.bound.get(node.id, node)


def equal(pattern: object, node: object, bound: dict[str, ast.AST] | None) -> bool:
    if bound is not None and isinstance(pattern, ast.Name) and pattern.id.startswith("hole_"):
        if not isinstance(node, ast.AST):  # an omitted part, such as an end of a slice
            return False
        if isinstance(node, ast.Slice | ast.Starred) or has_slice(node):
            return False
        earlier = bound.setdefault(pattern.id, node)
        return same(earlier, node)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        assert isinstance(node, list)
        return len(pattern) == len(node) and all(
            equal(one, other, bound) for one, other in zip(pattern, node, strict=True)
        )
    if isinstance(pattern, ast.AST):
        return all(
            equal(getattr(pattern, name), getattr(node, name), bound)
            for name in pattern._fields
            if name not in ("ctx", "kind", "type_comment")
        )
    return pattern == node


def has_slice(node: object) -> bool:
    return isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts)


@common
@given(st.data(), st.sampled_from(REPLACEMENTS))
def test_an_expression_matches_in_any_layout_and_is_replaced_as_in_the_tree(
    data: st.DataObject, replacement: str
) -> None:
    module, node = pick(data, ast.expr)
    assert isinstance(node, ast.expr)
    assume(not has_slice(node))
    oracle = Substitute(node, replacement)
    expected = oracle.visit(parse(text_of(module)))
    patched = run(ast.unparse(node), replacement, module)
    assert len(patched.sites) == oracle.count
    assert same(parse(patched.sources[module]), expected)


@common
@given(st.data(), st.sampled_from(WRAPPERS))
def test_a_bound_expression_is_put_into_the_template_as_a_subtree(
    data: st.DataObject, wrapper: str
) -> None:
    module, node = pick(data, ast.expr)
    pattern = with_hole(data, node)
    oracle = Substitute(pattern, wrapper)
    expected = oracle.visit(parse(text_of(module)))
    patched = run(in_notation(pattern), wrapper, module)
    assert len(patched.sites) == oracle.count
    assert same(parse(patched.sources[module]), expected)


@common
@given(st.data())
def test_the_pattern_with_its_bindings_is_the_code_that_matched(data: st.DataObject) -> None:
    module, node = pick(data, ast.expr)
    pattern = with_hole(data, node)
    oracle = Substitute(pattern, "zz($whole)")
    expected = oracle.visit(parse(text_of(module)))
    before = in_notation(pattern)
    patched = run(before, f"zz({before})", module)
    assert same(parse(patched.sources[module]), expected)


def with_hole(data: st.DataObject, node: ast.AST) -> ast.expr:
    """An expression with one of its parts replaced by a metavariable."""
    pattern = copy.deepcopy(node)
    inner = [n for n in ast.walk(pattern) if isinstance(n, ast.expr) and n is not pattern]
    inner = [n for n in inner if not isinstance(n, ast.Slice | ast.Starred)]
    assume(inner and not has_slice(node))
    assume(not any(isinstance(n, ast.JoinedStr | ast.FormattedValue) for n in ast.walk(node)))
    chosen = inner[data.draw(st.integers(0, len(inner) - 1))]
    pattern = swap(pattern, chosen, ast.Name("hole_a"))
    assert isinstance(pattern, ast.expr)
    return ast.fix_missing_locations(pattern)


def in_notation(pattern: ast.expr) -> str:
    return ast.unparse(pattern).replace("hole_a", "$a")


def swap(root: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    return Swap().visit(root)


@common
@given(st.data())
def test_undoing_restores_every_byte(data: st.DataObject) -> None:
    module, node = pick(data, ast.expr)
    code = ast.unparse(node)
    there = run(code, "zz_fresh", module)
    back = parse_patch(f"@@ @@\n-zz_fresh\n{signed('+', code)}", path="p.md", line=1)
    text = apply_patch(back, there.sources).sources[module]
    assert same(parse(text), tree_of(module))
    if all(site.before == code for site in there.sites):
        assert text == text_of(module)


# ----- statements -----


def substituted(text: str, wanted: ast.AST, added: list[ast.stmt]) -> ast.Module:
    """Replaces every statement with the structure of `wanted` by others, or deletes it."""
    tree = parse(text)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for _, part in ast.iter_fields(node):
            if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                fresh: list[ast.stmt] = []
                for statement in part:
                    found = same(statement, wanted) and not is_elif(statement, text)
                    fresh += copy.deepcopy(added) if found else [statement]
                    pending += [] if found else [statement]
                needed = not isinstance(node, ast.Module)
                part[:] = fresh or ([ast.Pass()] if needed else [])
            elif isinstance(part, list):
                pending += [item for item in part if isinstance(item, ast.AST)]
    return tree


def is_elif(node: ast.stmt, text: str) -> bool:
    return text.split("\n")[node.lineno - 1][node.col_offset :].startswith("elif")


def said_otherwise(node: ast.AST) -> bool:
    """Whether `ast.unparse` writes it in another form than its source: `else: if`, `del (a, b)`."""
    return any(
        (isinstance(item, ast.If) and len(item.orelse) == 1 and isinstance(item.orelse[0], ast.If))
        or (isinstance(item, ast.Delete) and isinstance(item.targets[0], ast.Tuple))
        for item in ast.walk(node)
    )


@common
@given(st.data(), st.sampled_from([*STATEMENTS, ""]))
def test_a_statement_matches_in_any_layout_and_is_replaced_as_in_the_tree(
    data: st.DataObject, replacement: str
) -> None:
    module, node = pick(data, ast.stmt)
    assert isinstance(node, ast.stmt)
    assume(not said_otherwise(node) and not is_elif(node, text_of(module)))
    assume(not isinstance(node, ast.Expr) or not replacement or "\n" in replacement)
    added = ast.parse(replacement).body
    expected = substituted(text_of(module), node, added)
    patched = run(ast.unparse(node), replacement, module)
    assert same(parse(patched.sources[module]), expected)


@common
@given(st.data(), st.booleans())
def test_a_line_added_beside_context_leaves_the_context_as_it_was(
    data: st.DataObject, above: bool
) -> None:
    module, node = pick(data, ast.stmt)
    assert isinstance(node, ast.stmt)
    assume(not said_otherwise(node) and not is_elif(node, text_of(module)))
    assume("\n\n" not in ast.unparse(node))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)  # read leniently
    assume(not any(isinstance(item, definitions) for item in ast.walk(node)))
    context = signed(" ", ast.unparse(node))
    hunk = f"@@ @@\n+zz()\n{context}" if above else f"@@ @@\n{context}+zz()\n"
    added = parse("zz()").body
    both = [*added, node] if above else [node, *added]
    expected = substituted(text_of(module), node, both)
    try:
        patched = apply_patch(parse_patch(hunk, path="p.md", line=1), {module: text_of(module)})
    except HunkError as error:
        assume("is not Python" not in str(error))
        raise
    assert same(parse(patched.sources[module]), expected)
    assert all(site.before == "" or "zz()" in site.after for site in patched.sites)


# ----- marks -----

WORKLOADS = {
    "bisect.py": "result = [bisect_left([1, 2, 4], n) for n in range(6)]; insort(result, 3)",
    "colorsys.py": "result = [hls_to_rgb(*rgb_to_hls(x, .5, y)) for x in (0, .3) for y in (.2, 1)]",
    "heapq.py": "result = [9, 4, 7, 1]; heapify(result); result += merge([1], nlargest(2, result))",
    "textwrap.py": "result = wrap('a bc-d ' * 9, 20) + [dedent('  x\\n    y'), indent('a', '- ')]",
    "shlex.py": "result = [split('a \"b c\" d # e', comments=True), join(['x', 'y z'])]",
    "statistics.py": "result = [mean([1, 2, 4]), median([3, 1]), stdev([1., 2.]), mode('aab')]",
    "json/encoder.py": "result = JSONEncoder(indent=1).encode({'a': [1, 2.5, None], 'é': {}})",
}
_UNMARKABLE = (ast.JoinedStr, ast.pattern, ast.arguments, ast.Yield, ast.Await, ast.NamedExpr)


@common
@given(st.data())
def test_marks_count_executions_and_change_no_result(data: st.DataObject) -> None:
    module = data.draw(st.sampled_from(sorted(WORKLOADS)))
    plain = markable(tree_of(module))
    node = plain[data.draw(st.integers(0, len(plain) - 1))]
    assume(not any(isinstance(item, _UNMARKABLE) for item in ast.walk(node)))
    oracle = Substitute(node, "zz")
    oracle.visit(parse(text_of(module)))
    assume(oracle.count == sum(same(node, other) for other in plain))
    code = ast.unparse(node)
    patched = run(code, f"[oracle__(), {code}][1]", module)
    numbered = list(enumerate(patched.sites))
    clean, _, _ = execute(compile_marked(text_of(module), module, [], Hooks("mark__")), module)
    text = patched.sources[module]
    unmarked, none, calls = execute(compile_marked(text, module, [], Hooks("mark__")), module)
    marked, marks, calls_again = execute(
        compile_marked(text, module, numbered, Hooks("mark__")), module
    )
    assert clean == unmarked == marked
    assert none == 0
    assert marks == calls == calls_again


def markable(tree: ast.Module) -> list[ast.expr]:
    """The expressions that are marked at the expression itself."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            found.append(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            pending += node.body
        elif not isinstance(node, _UNMARKABLE):
            pending += ast.iter_child_nodes(node)
    return [item for item in found if not isinstance(item, ast.Slice | ast.Starred)]


def execute(code: CodeType, module: str) -> tuple[object, int, int]:
    """The workload's result, and how often the marker and the oracle were called."""
    counts = Counter[str]()

    def mark(_: int) -> bool:
        counts["mark"] += 1
        return True

    def oracle() -> None:
        counts["oracle"] += 1

    names = {
        "__name__": module,
        "mark__": mark,
        "oracle__": oracle,
        "value__": lambda _, value: value,
        "frame__": lambda *_: None,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, names)  # noqa: S102
        exec(WORKLOADS[module], names)  # noqa: S102
    return repr(names["result"]), counts["mark"], counts["oracle"]


@pytest.mark.parametrize("module", MODULES)
def test_missing_code_does_not_apply(module: str) -> None:
    patch = parse_patch("@@ @@\n-zz_nowhere($x)\n+$x\n", path="p.md", line=1)
    with pytest.raises(DoesNotApply):
        apply_patch(patch, {module: text_of(module)})
