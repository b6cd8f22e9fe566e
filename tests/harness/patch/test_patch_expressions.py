"""Hunks whose two sides are expressions: their matches and their results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.core.errors import DoesNotApply, HunkError
from harness.patch import Patched

PatchFile = Callable[[str, str], str]


def hunk(before: str, after: str, scope: str = "") -> str:
    return f"@@ {scope} @@\n-{before}\n+{after}\n"


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("f(a, b)", "f(a,b)"),
        ("f(a, b)", "f(a, b,)"),
        ("f(a,b)", "f( # why\n  a,\n  b)"),
        ("f(a)", "(f)((a))"),
        ("'x'", '"x"'),
        ("'x'", "'''x'''"),
        ("'ab'", "'a' 'b'"),
        ("'a\\n'", "'a\\x0a'"),
        ("16", "0x10"),
        ("1000.0", "1e3"),
        ("f'{x}a'", 'f"{x}" "a"'),
        ("f'{x=}'", "f'x={x!r}'"),
        ("x[a, b]", "x[(a, b)]"),
        ("(a, b)", "a, b"),
        ("a and b and c", "a and (b) and c"),
        ("x[a:b]", "x[a:b:]"),
        ("lambda a, /, *, b: a", "lambda a,/,*,b:a"),
        ("{'k': v, **w}", "{'k':v,**w,}"),
    ],
)
def test_layout_quotes_and_parentheses_do_not_matter(
    patch_file: PatchFile, before: str, code: str
) -> None:
    assert patch_file(hunk(before, "zz"), f"y = {code}\n") in ("y = zz\n", "y = (zz)\n")


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("f(a)", "f(a, b)"),
        ("f(a)", "f(*a)"),
        ("f(a)", "f(a=a)"),
        ("f(a)", "g.f(a)"),
        ("1", "1.0"),
        ("1", "True"),
        ("'x'", "b'x'"),
        ("x[a,]", "x[a]"),
        ("(a,)", "(a)"),
        ("a and b", "a and b and c"),
        ("a - b", "a + b"),
        ("a < b", "a < b < c"),
        ("x[a:b]", "x[a:b, c]"),
        ("grad", "x.grad"),
        ("grad", "f(grad=1)"),
        ("[x for x in y]", "[x for x in y if x]"),
        ("$x + $x", "a + b"),
        ("$x + $x", "a[1:] + a[:1]"),
        ("f'{x}'", "f'{x!r}'"),
        ("f'{x:.2f}'", "f'{x:.3f}'"),
        ("f'{x:{y}}'", "f'{x:{z}}'"),
    ],
)
def test_different_trees_do_not_match(patch_file: PatchFile, before: str, code: str) -> None:
    with pytest.raises(DoesNotApply):
        patch_file(hunk(before, "zz"), f"y = {code}\n")


@pytest.mark.parametrize(
    ("before", "after", "code", "expected"),
    [
        ("$x + $x", "2 * $x", "f(a) + f( a )", "2 * f(a)"),
        ("$x.grad", "$x.data", "self._x.grad", "self._x.data"),
        ("x.$name", "y.$name", "x.grad", "y.grad"),
        ("f($k=1)", "f($k=2)", "f(axis=1)", "f(axis=2)"),
        ("f($...a)", "g($...a)", "f()", "g()"),
        ("f($...a)", "g($...a)", "f(1, *b, k=2, **c)", "g(1, *b, k=2, **c)"),
        ("f(x, $...a)", "f($...a)", "f(x)", "f()"),
        ("f($...a, axis=$k)", "f($...a)", "f(x, y, axis=0)", "f(x, y)"),
        ("f($...a, axis=$k)", "f($...a)", "f(axis=0)", "f()"),
        ("f($...a, axis=$k, $...b)", "f($...a, $...b)", "f(axis=0, d=1)", "f(d=1)"),
        ("f($...a, axis=$k, $...b)", "f($...a, $...b)", "f(x, axis=0)", "f(x)"),
        ("f($...a, x, $...b)", "f($...b)", "f(1, x, 2, x)", "f(2, x)"),
        ("f($...a, $...a)", "g($...a)", "f(1, 2, 1, 2)", "g(1, 2)"),
        ("[$...a, x]", "[$...a]", "[1, *z, x]", "[1, *z]"),
        ("($...a, x)", "($...a, y)", "(1, x)", "(1, y)"),
        ("f($...a, x)", "[$...a, x]", "f(x)", "[x]"),
        ("{k: $v, $...a}", "{$...a, k: $v}", "{k: 1, **b, c: d}", "{**b, c: d, k: 1}"),
        ("lambda $...a: $b", "lambda $...a: not $b", "lambda x, *y: x", "lambda x, *y: not x"),
        ("lambda $...a: $b", "lambda $...a: g", "lambda x, *y, z=(1): x", "lambda x, *y, z=(1): g"),
        ("lambda $...a, k=$d: x", "lambda $...a: x", "lambda a, k=1: x", "lambda a: x"),
        ("lambda x, $...a, y, *z: 0", "lambda $...a: 0", "lambda x, y, *z: 0", "lambda : 0"),
        ("x[$...i]", "y[$...i]", "x[1:, None]", "y[1:, None]"),
        ("x[$...i]", "y[$...i]", "x[1]", "y[1]"),
        ("x[$i]", "y[$i]", "x[a, b]", "y[a, b]"),
        ("f('$x', $x)", "g($x)", "f('$x', 1)", "g(1)"),
        ("f($x)  # of $y", "$x", "f(1)", "1"),
    ],
)
def test_metavariables_stand_for_code_and_keep_it_verbatim(
    patch_file: PatchFile, before: str, after: str, code: str, expected: str
) -> None:
    assert patch_file(hunk(before, after), f"y = {code}\n") == f"y = {expected}\n"


@pytest.mark.parametrize(
    ("before", "after", "code", "expected"),
    [
        ("f($x)", "$x * 2", "y = f(a + b)", "y = (a + b) * 2"),
        ("f($x)", "$x * 2", "y = f(a * b)", "y = a * b * 2"),
        ("f($x)", "$x", "y = f(a + b) * 3", "y = (a + b) * 3"),
        ("f($x)", "a + b", "y = f(x) * 3", "y = (a + b) * 3"),
        ("f($x)", "a + b", "y = c - f(x)", "y = c - (a + b)"),
        ("f($x)", "a + b", "y = f(x) - c", "y = a + b - c"),
        ("f($x)", "-$x", "y = f(x) ** 2", "y = (-x) ** 2"),
        ("f($x)", "$x.T", "y = f(1)", "y = (1).T"),
        ("f($x)", "$x.T", "y = f(-a)", "y = (-a).T"),
        ("f($g, $s)", "$g", "return f(a + b, s)", "return a + b"),
        ("f($g, $s)", "$g", "return f(a +\n    b, s)", "return (a +\n    b)"),
        ("f($g)", "$g", "y = [f(a +\n  b)]", "y = [a +\n  b]"),
        ("f($g)", "$g", "y = f((a +\n  b))", "y = (a +\n  b)"),
        ("f($g)", "$g", "y = f(g(\n  a))", "y = g(\n  a)"),
        ("f($x)", "g($x)", "y = f(i for i in j)", "y = g(i for i in j)"),
        ("f($x)", "g($x, 1)", "y = f(i for i in j)", "y = g((i for i in j), 1)"),
        ("f($...x)", "g($...x, 1)", "y = f(i for i in j)", "y = g((i for i in j), 1)"),
        ("f($x)", "$x", "y = f(i for i in j)", "y = (i for i in j)"),
        ("f($x)", "$x + 1", "y = f(lambda: 0)", "y = (lambda: 0) + 1"),
        ("f($x)", "$x", "y = f(a := 1)", "y = (a := 1)"),
        ("f($x)", "g($x)", "y = f((yield a))", "y = g((yield a))"),
        ("f($x)", "$x + 1", "y = f(a if b else c)", "y = (a if b else c) + 1"),
        ("f($x)", "$x or d", "y = f(a if b else c)", "y = (a if b else c) or d"),
        ("f($x)", "$x, 1", "y = f(a if b else c)", "y = a if b else c, 1"),
        ("f($x)", "$x, 1", "y = g(f(a))", "y = g((a, 1))"),
        ("f($x)", "$x, 1", "return f(a)", "return a, 1"),
        ("f($x)", "$x, 1", "y = z[f(a)]", "y = z[a, 1]"),
        ("f($x)", "$x, $x", "with f(a): pass", "with ((a, a)): pass"),
        ("f($x)", "$x", "with f((a, b)): pass", "with ((a, b)): pass"),
        ("f($x)", "{$x}", "y = f'{f(a)}'", "y = f'{({a})}'"),
        ("f($x)", "not $x", "y = a == f(b)", "y = a == (not b)"),
        ("($x, 1)", "$x", "y = a if b else(c, 1)", "y = a if b else c"),
        ("(a, b)", "a + b", "y = (a, b) * 2", "y = (a + b) * 2"),
        ("'s'", "t", "y = 's'if a else b", "y = t if a else b"),
        ("f($x)", "await $x", "y = f(a).b", "y = (await a).b"),
        ("f($x)", "a and b", "y = f(1) and c", "y = (a and b) and c"),
        ("f($x)", "a and b", "y = f(1) or c", "y = a and b or c"),
        ("f($x)", "a or b", "y = f(1) and c", "y = (a or b) and c"),
        ("f($x)", "a | b", "y = f(1) ^ c", "y = (a | b) ^ c"),
        ("f($x)", "a ^ b", "y = f(1) & c", "y = (a ^ b) & c"),
        ("f($x)", "a & b", "y = f(1) << c", "y = (a & b) << c"),
        ("f($x)", "a << b", "y = f(1) + c", "y = (a << b) + c"),
        ("f($x)", "a << b", "y = f(1) & c", "y = a << b & c"),
        ("f($x)", "$x", "y = -f(2) ** 2", "y = -2 ** 2"),
    ],
)
def test_parentheses_are_added_where_the_tree_needs_them_and_nowhere_else(
    patch_file: PatchFile, before: str, after: str, code: str, expected: str
) -> None:
    source, wanted = (f"async def h():\n    {text}\n" for text in (code, expected))
    assert patch_file(hunk(before, after), source) == wanted


def test_every_outermost_match_is_a_site(patched: Callable[..., Patched]) -> None:
    source = "def h():\n    return f(f(a)) + f(b)\n"
    result = patched(hunk("f($x)", "g($x)"), source)
    assert result.sources["ops.py"] == "def h():\n    return g(f(a)) + g(b)\n"
    assert [(site.before, site.after) for site in result.sites] == [
        ("f(f(a))", "g(f(a))"),
        ("f(b)", "g(b)"),
    ]
    assert {(site.line, site.scope, site.kind) for site in result.sites} == {(2, "h", "expression")}


def test_targets_are_expressions_too(patch_file: PatchFile) -> None:
    assert patch_file(hunk("$x.grad", "$x.g"), "a.grad = b.grad\n") == "a.g = b.g\n"


def test_an_expression_over_several_lines_keeps_the_indentation_of_its_place(
    patch_file: PatchFile,
) -> None:
    text = "@@ @@\n f(\n-    $x,\n+    g(\n+        $x),\n )\n"
    source = "def h():\n\treturn f(a)\n"
    assert patch_file(text, source) == "def h():\n\treturn f(\n\t    g(\n\t        a),\n\t)\n"


def test_a_name_is_needed_where_only_a_name_fits(patch_file: PatchFile) -> None:
    with pytest.raises(HunkError, match=r"`\$x` stands for `a \+ b`, and only a name fits here"):
        patch_file(hunk("f($x)", "y.$x"), "f(a + b)\n")


def test_a_tuple_that_would_be_left_with_one_element_is_refused(patch_file: PatchFile) -> None:
    text = hunk("f(x, $...rest)", "(x, $...rest)")
    assert patch_file(text, "y = f(x, 1)\n") == "y = (x, 1)\n"
    with pytest.raises(HunkError, match="leaves a tuple with a single element"):
        patch_file(text, "y = f(x)\n")


def test_four_runs_are_read_where_each_needs_its_rarer_form(patch_file: PatchFile) -> None:
    before = f"f({', '.join(f'{{k: v, $...{name}}}' for name in 'abcd')})"
    source = "f({k: v, **x}, {k: v}, {k: v, m: n}, {k: v})\n"
    assert patch_file(hunk(before, "{$...c, $...a}"), source) == "{m: n, **x}\n"


def test_a_site_in_another_encoding_width_keeps_the_bytes_around_it(patch_file: PatchFile) -> None:
    source = "s = 'ééé'; y = f(ü, '∂')  # ∇\n"
    assert patch_file(hunk("f($x, $y)", "g($y)"), source) == "s = 'ééé'; y = g('∂')  # ∇\n"


def test_a_byte_order_mark_stays(patch_file: PatchFile) -> None:
    assert patch_file(hunk("f($x)", "$x"), "\ufeffy = f(1)\n") == "\ufeffy = 1\n"
