"""The parts of expressions that a patch changes: found from either text, or not at all."""

import ast

import pytest

from harness.core.site import Site
from harness.engines.changed_parts import changed_parts
from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from tests.harness.bundled import CATALOGUE


def parts(before: str, after: str) -> list[tuple[str, str, str]]:
    """The parts of the new text: each with the old expression, and the operand that is new."""
    head = "def f(x):\n    "
    site = Site("m.py", 2, "f", before, after, len(head), len(head + after), "statements")
    text = f"{head}{after}\n    return x\n"
    found = changed_parts(ast.parse(text), text.encode(), site)

    def shown(node: ast.expr | None) -> str:
        return ast.unparse(node) if node else ""

    return [(shown(part.other), shown(part.node), shown(part.operand)) for part in found]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("y = g * b", "y = g * a", [("b", "a", "")]),
        ("y = f(g * b, 1), g * a", "y = f(g * a, 1), g * b", [("b", "a", ""), ("a", "b", "")]),
        ("y = b", "y = g * b", [("b", "g * b", "g")]),
        ("y = b.copy()", "y = b / n", [("b.copy()", "b / n", "n")]),
        ("y = h(g, a.shape)", "y = g", [("h(g, a.shape)", "g", "")]),
        ("y = a.sum(axis=0)", "y = a.sum(axis=1)", [("a.sum(axis=0)", "a.sum(axis=1)", "")]),
        ("y = a.T.sum()", "y = a.sum()", [("a.T", "a", "")]),
        ("y = a.min()", "y = a.max()", [("a.min()", "a.max()", "")]),
        ("y = a[:, 1:]", "y = a[:, :-1]", [("a[:, 1:]", "a[:, :-1]", "")]),
        ("y = a[rows, b]", "y = a[:, b]", [("a[rows, b]", "a[:, b]", "")]),
        ("y = a + b", "y = a - b", [("a + b", "a - b", "")]),
        ("if a < b:\n        y = 1", "if a <= b:\n        y = 1", [("a < b", "a <= b", "")]),
        ("y = 1\n    y = 2", "y = 1", []),
        ("if a:\n        y = 1", "y = 1", [("a", "", "")]),
        ("y = 1", "if a:\n        y = 1", [("", "a", "")]),
        ("y += g", "y = g", []),
        ("for i in a:\n        y = i", "for j in a:\n        y = j", []),
    ],
)
def test_the_smallest_expressions_that_differ_are_found(
    before: str, after: str, expected: list[tuple[str, str, str]]
) -> None:
    assert parts(before, after) == expected


@pytest.mark.parametrize("page_id", ["mul-swapped-operands", "mul-ignore-upstream"])
def test_both_texts_of_an_engine_have_the_same_parts_in_the_same_order(page_id: str) -> None:
    experiment = prepare(CATALOGUE.page(page_id), CATALOGUE, find_engine())
    for site in experiment.broken.sites:
        found = []
        for sources, one in (
            (experiment.broken.sources, site),
            (experiment.clean.sources, site.undone()),
        ):
            text = sources[site.file]
            found.append(changed_parts(ast.parse(text), text.encode(), one))
        dumps = [
            [tuple(ast.dump(node) if node else "" for node in part[:2]) for part in side]
            for side in found
        ]
        assert dumps[0]
        assert dumps[0] == [(old, new) for new, old in dumps[1]]
