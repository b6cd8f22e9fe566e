"""A patch at each of its sites in a rule, one at a time."""

import ast
import textwrap
from pathlib import Path
from types import CodeType

import pytest

from harness.core.errors import HunkError
from harness.engines.engine import Dialect, Engine
from harness.grade.rule_mutants import rule_mutants
from harness.patch import parse_patch
from harness.rules import check_scopes, find_rules, mutations
from tests.harness.bundled import CATALOGUE

RULE = """
def other(g, a, b):
    return g * a * b

def mul_backward(g, a, b):
    return g * b, g * a, None
"""


def changes(patch: str, text: str = RULE) -> list[tuple[str, int, str]]:
    """Return the code that each change writes, with the function and the line."""
    parsed = parse_patch(textwrap.dedent(patch).strip("\n"), path="page.md", line=1)
    return [
        (function.name, line, patched.sites[0].after)
        for rule in find_rules({"ops.py": text})
        for function, line, patched in mutations(parsed, rule, text)
    ]


def test_each_site_is_changed_alone_and_only_in_the_rule() -> None:
    assert changes("@@ rule.backward @@\n-$cotangent * $f\n+$f") == [
        ("mul_backward", 6, "b"),
        ("mul_backward", 6, "a"),
    ]


def test_the_rest_of_the_file_stays() -> None:
    patch = parse_patch("@@ rule @@\n-$cotangent * $f\n+$f", path="page.md", line=1)
    (rule,) = find_rules({"ops.py": RULE})
    texts = [patched.sources["ops.py"] for _, _, patched in mutations(patch, rule, RULE)]
    assert texts == [RULE.replace("g * b, g", "b, g"), RULE.replace("g * a, None", "a, None")]


def test_every_binding_of_two_runs_is_a_change() -> None:
    swapped = changes(
        "@@ rule @@\n-return $...a, $x, $...b, $y, $...c\n+return $...a, $y, $...b, $x, $...c"
    )
    assert [after for _, _, after in swapped] == [
        "return g * a, g * b, None",
        "return None, g * a, g * b",
        "return g * b, None, g * a",
    ]


ON_LINES = """
def f_backward(g, a, b):
    return (
        g
        * a,  # of the first
        g * b,
        g.sum(
            axis=0,
        ),
    )
"""


def test_a_run_of_elements_on_several_lines_fits_where_there_are_no_parentheses() -> None:
    found = changes("@@ rule @@\n-return $...a, $x, $...b\n+return $...a, None, $...b", ON_LINES)
    returned = [ast.unparse(ast.parse(after)) for _, _, after in found]
    assert returned == [
        "return (None, g * b, g.sum(axis=0))",
        "return (g * a, None, g.sum(axis=0))",
        "return (g * a, g * b, None)",
    ]


def test_a_change_on_several_lines_is_described_in_one() -> None:
    engine = Engine("ops", Dialect("ops"), Path(), {"ops.py": ON_LINES})
    operator = CATALOGUE.page("none-for-gradient")
    mutants = rule_mutants([operator], find_rules(engine.sources), engine)
    texts = [(one.change.before, one.change.after) for one in mutants if one.change is not None]
    before = "return ( g * a, g * b, g.sum( axis=0, ), )"
    assert texts == [
        (before, "return None, g * b, g.sum( axis=0, )"),
        (before, "return (g * a), None, g.sum( axis=0, )"),
        (before, "return (g * a), g * b, None"),
    ]


def test_nested_sites_are_changed_too() -> None:
    text = "def f_backward(g, a, b):\n    return (g * a) * b\n"
    found = {after for _, _, after in changes("@@ rule @@\n-$x * $y\n+$x", text)}
    assert found == {"(g * a)", "b", "g", "a"}  # a product is the same in either order


def test_a_function_without_a_cotangent_has_no_site_of_it() -> None:
    text = "def f_backward(g, a):\n    return h(a)\n\ndef h(a):\n    return a * a\n"
    assert changes("@@ rule @@\n-$cotangent * $f\n+$f", text) == []


def test_a_change_that_means_the_same_is_left_out() -> None:
    text = "def f_backward(g, a):\n    return (None, None)\n"
    assert changes("@@ rule @@\n-return $...a, $x, $...b\n+return $...a, None, $...b", text) == []


@pytest.mark.parametrize("scope", ["add", "", "rule.vjp"])
def test_an_operator_is_confined_to_rules(scope: str) -> None:
    patch = parse_patch(f"@@ {scope} @@\n-$a * $b\n+$a", path="page.md", line=3)
    with pytest.raises(HunkError, match="scope of an operator"):
        check_scopes(patch)


SHAPES = """
import numpy as np


@register("mul")
def mul_backward(g, k): return np.multiply(g, k), g * k


add_backward = 2; sub_backward = lambda g: -g


class Div:
    factor = 2.0

    @staticmethod
    def forward(x): return x

    @staticmethod
    def backward(g, k=1.0 * 2.0):
        return g * k


table = {"exp": lambda g, y: g * y, "log": lambda g, x: g / x}
BACKWARD = {"exp": lambda g, y: g * y, "log": lambda g, x: g / x}
"""


def instructions(code: CodeType) -> object:
    constants = [
        instructions(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts
    ]
    return code.co_name, code.co_qualname, code.co_code, code.co_names, constants


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_code_of_a_mutant_is_that_of_its_text(end: str) -> None:
    text = SHAPES.replace("\n", end)
    patch = parse_patch("@@ rule @@\n-$a * $b\n+$a", path="page.md", line=1)
    count = 0
    for rule in find_rules({"ops.py": text}):
        for _, _, patched in mutations(patch, rule, text):
            whole = compile(patched.sources["ops.py"], "ops.py", "exec", dont_inherit=True)
            assert instructions(patched.codes["ops.py"]) == instructions(whole)
            count += 1
    assert count >= 5


def test_values_that_are_equal_are_not_exchanged() -> None:
    patch = "@@ rule @@\n-$...a, $x, $...b, $y, $...c = $s\n+$...a, $y, $...b, $x, $...c = $s"
    text = "def f_backward(g, saved):\n    {}\n    return g\n"
    assert changes(patch, text.format("a, b = zero, zero")) == []
    assert changes(patch, text.format("zero, zero = saved")) == []
    found = [
        after for _, _, after in changes(patch, text.format("a, b = saved.pop(), saved.pop()"))
    ]
    assert found == ["b, a = saved.pop(), saved.pop()"]
    found = [after for _, _, after in changes(patch, text.format("a, b, c = zero, zero, g"))]
    assert found == ["c, b, a = zero, zero, g", "a, c, b = zero, zero, g"]
