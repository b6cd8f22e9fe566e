"""How much of a submission is a copy of the engine."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from harness.grade.copying import find_copies
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.grade.test_twins import ENGINE
from tests.suites import ROOT, SUITES

PASTED = "\n".join(
    ENGINE.sources[f"minigrad/{name}.py"] for name in ("elementwise", "broadcasting", "reductions")
)
TESTS = """

def reference(a, b):
    return mul(a, b)


class Cases:
    def test_method(self):
        assert reference(1, 2)


def test_copy():
    assert reference(1, 2)


def test_own():
    assert 1 + 1 == 2
"""


class Renamed(ast.NodeTransformer):
    """Changes every name, and removes docstrings and annotations."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(f"new_{node.id}", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(f"new_{node.arg}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return ast.Attribute(node.value, f"new_{node.attr}", node.ctx)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name, node.returns = f"new_{node.name}", None
        node.body = node.body[ast.get_docstring(node) is not None :] or [ast.Pass()]
        return node


FORMS = {
    "as it is": PASTED,
    "renamed": ast.unparse(ast.fix_missing_locations(Renamed().visit(ast.parse(PASTED)))),
    "in a string": f"exec({PASTED!r})",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_pasted_engine_is_found(form: str) -> None:
    found = find_copies({"engine.py": FORMS[form].encode()}, ENGINE.sources)
    assert found.share > 0.7
    assert len(found.functions) > 10
    assert all(name.startswith("engine.py: ") for name in found.functions)


def test_the_tests_that_use_it_are_named() -> None:
    files = {"engine.py": PASTED.encode(), "test_a.py": TESTS.encode(), "data": b"\0\xff"}
    assert find_copies(files, ENGINE.sources).tests == ["test_copy", "test_method"]
    (share,) = {find_copies({"test_a.py": (PASTED + TESTS).encode()}, ENGINE.sources).share}
    assert 0.7 < share < 1


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_honest_suites_have_copied_nothing(suite: object) -> None:
    paths = getattr(suite, "paths", ())
    assert paths
    files = {path: (ROOT / path).read_bytes() for path in paths}
    assert find_copies(files, ENGINE.sources).functions == []


def test_a_submission_without_functions_has_copied_nothing() -> None:
    assert find_copies({"test_a.py": b"X = 1"}, ENGINE.sources).share == 0.0


def test_copies_are_refused_on_request(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(PASTED + TESTS)
    plan = plan_grading(CATALOGUE, ENGINE, open_cache(), selection="sub-sign", correct=())
    report = grade_suite(tmp_path, replace(plan, allow_copy=False))
    assert not report.gradable
    assert report.reason.endswith("are copied from the engine, and copies are not allowed")
    assert report.copied.tests == ["test_copy", "test_method"]
