"""Rewritten files are compiled with the positions of the clean ones, and to the same code."""

import ast
from collections.abc import Iterator
from types import CodeType

import pytest

from harness.engines.loading import differ
from harness.grade.plan import _move as move
from harness.grade.plan import compile_in_place, plan_grading
from harness.grade.protocol import unpack
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.grade.test_twins import ENGINE, SOME, composed

CLEAN = """
import functools

@functools.cache
def first(x):
    return x

class Layer:
    size = 3

    def call(self, x):
        def inner(y):
            return y
        return inner(x)

    @property
    def last(self): return 1

TABLE = [lambda x: x]

def end(): pass
"""

LONGER = """
import functools

@functools.cache
def first(x):
    if x:
        return x
    else:
        y = x
        return y

class Layer:
    size = 3

    def call(self, x):
        total = 0
        if x:
            def inner(y):
                return y + 0
        else:
            def inner(y):
                return y
        return inner(x)

    @property
    def last(self): return 1

TABLE = [lambda x: x]

def end(): pass
"""


def inner(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner(constant)


def first_lines(code: CodeType) -> set[tuple[str, int]]:
    """Where the functions and classes begin, without the expressions that compile to functions."""
    return {
        (one.co_qualname, one.co_firstlineno)
        for one in inner(code)
        if not one.co_qualname.endswith(">") or "<lambda>" in one.co_qualname
    }


def test_definitions_begin_where_the_clean_file_has_them() -> None:
    clean = compile(CLEAN, "file.py", "exec")
    assert first_lines(compile_in_place(LONGER, CLEAN, "file.py")) == first_lines(clean)
    longer = compile(LONGER, "file.py", "exec")
    assert first_lines(compile_in_place(CLEAN, LONGER, "file.py")) < first_lines(longer)
    assert first_lines(compile_in_place(CLEAN, CLEAN, "file.py")) == first_lines(clean)


ANNOTATED = """
@functools.cache
def outer(x: int) -> int:
    def inner(x: int) -> int:
        return x
    return inner(x)
"""


def test_what_comes_before_a_body_stays_on_its_line() -> None:
    """Otherwise, Python 3.12 compiles the definition to other code."""
    tree, clean = ast.parse(ANNOTATED.replace("return x", "x = x\n        return x")), ANNOTATED
    outer = tree.body[0]
    assert isinstance(outer, ast.FunctionDef)
    move(tree, ast.parse(clean))
    assert outer.returns is not None
    assert [outer.decorator_list[0].lineno, outer.lineno, outer.returns.lineno] == [2, 3, 3]


@pytest.mark.parametrize("page_id", SOME)
def test_twins_are_compiled_to_the_same_code_with_other_lines(page_id: str) -> None:
    pair = composed(page_id)
    for texts in (pair.broken, pair.twin):
        for file, text in texts.items():
            clean = compile(ENGINE.sources[file], file, "exec", dont_inherit=True)
            plain = compile(text, file, "exec", dont_inherit=True)
            moved = compile_in_place(text, ENGINE.sources[file], file)
            assert not differ(plain, moved)
            for before, after in zip(inner(plain), inner(moved), strict=True):
                assert not differ(before, after)
            named = {place for place in first_lines(clean) if "<lambda>" not in place[0]}
            assert named <= first_lines(moved)
            assert first_lines(plain) != first_lines(moved)


def test_correct_engines_are_compiled_in_place() -> None:
    correct = ["order-by-counting-children"]
    plan = plan_grading(CATALOGUE, ENGINE, open_cache(), selection="sub-sign", correct=correct)
    (variant,) = plan.variants
    for file, code in unpack(plan.correct(variant)).items():
        named = first_lines(plan.code.files[file])
        assert named <= first_lines(code)
        assert not named <= first_lines(unpack(variant.files.codes)[file])
