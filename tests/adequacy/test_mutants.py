"""The mutator of rules: what belongs to a rule, and which changes of it are made."""

import ast
from pathlib import Path

import pytest

from tests.adequacy.mutants import LATER, Rule, find_rules, mutants, set_aside
from tests.adequacy.trial import ROOT

RULES = {rule.name: rule for rule in find_rules(ROOT)}

HEAD = "def op(a: Array, b: Array) -> Recorded:\n    def vjp(g):\n        "


def test_every_function_with_a_backward_rule_is_found() -> None:
    files = (ROOT / "minigrad").rglob("*.py")
    assert sum(file.read_text().count("    def vjp(") for file in files) + 3 == len(RULES)
    assert {"broadcasting.unbroadcast", "indexing._may_repeat", "linalg._letters"} < set(RULES)


@pytest.mark.parametrize(
    ("rule", "prepared"),
    [
        ("linalg.matmul", ["rows", "columns"]),
        ("movement.concatenate", ["ends"]),
        ("layer_ops.max_pool2d", ["winner"]),
        ("elementwise.exp", []),  # the value is also what is returned
    ],
)
def test_what_is_prepared_for_the_rule_alone_belongs_to_it(rule: str, prepared: list[str]) -> None:
    assignments = [part for part in RULES[rule].statements if isinstance(part, ast.Assign)]
    assert {part.targets[0].id for part in assignments} == set(prepared)  # type: ignore[attr-defined]


def test_every_third_rule_in_the_order_of_the_names_is_set_aside() -> None:
    names = [rule.function for rule in set_aside(list(RULES.values()))]
    assert names[:4] == ["abs", "concatenate", "div", "exp"]
    functions = {rule.function for rule in RULES.values()}
    assert functions > set(LATER)
    assert names == sorted(functions - set(LATER))[2::3]


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("return (-g,)", {"return ((g),)", "return (-(-g),)", "return (2 * (-g),)"}),
        (
            "return (g / b,)",
            {
                "return (g * b,)",
                "return (g / a,)",
                "return (((b) / (g)),)",
                "return ((g),)",
                "return ((b),)",
                "return (-(g / b),)",
                "return (2 * (g / b),)",
            },
        ),
        (
            "h = unbroadcast(g, b.shape)",
            {"h = (g)", "h = unbroadcast(b.shape, g)", "h = unbroadcast(g, a.shape)"},
        ),
        ("h = g.swapaxes(0, axis)", {"h = (g)", "h = g.swapaxes(1, axis)"}),
        ("h = g.T", {"h = (g)"}),
        ("h = f @ g", {"h = (f).swapaxes(-1, -2) @ g", "h = ((g) @ (f))"}),
        ("h = g.sum(n, keepdims=True)", {"h = g.sum(n)", "h = g.sum(keepdims=True)"}),
        ("h = g.sum(n, keepdims=True)", {"h = g.sum(n, keepdims=False)", "h = (g)"}),
        ("h = np.where(c, g, 0)", {"h = np.where(g, c, 0)", "h = np.where(c, 0, g)"}),
        ("h = g if c else f", {"h = g if (not (c)) else f", "h = g if True else f"}),
        ("h = g[..., n]", {"h = (g)"}),
        ("h = c <= g", {"h = c < g", "h = (c) >= (g)"}),
        ("h[n] += g", {"pass", "h[n] = g", "h[n] -= g"}),
        ("h = 1", {"h = 2", "h = (0)"}),
    ],
)
def test_the_changes_of_a_line(tmp_path: Path, body: str, changed: set[str]) -> None:
    source = f"{HEAD}{body}\n    return 0, vjp\n"
    (tmp_path / "minigrad").mkdir()
    (tmp_path / "minigrad/small.py").write_text(source)
    (rule,) = find_rules(tmp_path)
    assert rule == Rule("minigrad/small.py", "op", ("a", "b"), rule.statements)
    found = [item.apply(source.encode()).decode() for item in mutants(tmp_path, rule)]
    assert changed <= {text.removeprefix(HEAD).splitlines()[0] for text in found}
    assert len({ast.dump(ast.parse(text)) for text in (source, *found)}) == len(found) + 1
