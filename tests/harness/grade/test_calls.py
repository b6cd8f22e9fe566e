"""Functions that were called, or whose code was read, cannot be swapped."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.engines.loading import Functions, compile_files, load
from harness.grade.calls import Calls

FILE, ROOT = "inspected_engine.py", Path("/nowhere")

SQUARE = "def square(x):\n    return x * x\n"

INSPECTING = {
    "keep the code": "code = square.__code__",
    "copy the code": "copy = type(square)(square.__code__.replace(co_name='copy'), globals())",
    "compile the source": "import inspect\nexec(inspect.getsource(square).replace('sq', 'd_sq'))",
    "serialize the code": "import marshal\ndata = marshal.dumps(square.__code__)",
    "replace the code": "import types\nsquare = types.coroutine(square)",
    "count the variables": "import inspect\nclosure = inspect.getclosurevars(square)",
    "call it in a thread": "import threading as t\na = t.Thread(target=square, args=[1])\n"
    "a.start()\na.join()",
}


@pytest.fixture
def calls() -> Iterator[Calls]:
    path, before = list(sys.meta_path), sys.dont_write_bytecode
    try:
        yield Calls()
    finally:
        sys.meta_path[:] = path
        sys.dont_write_bytecode = before
        sys.modules.pop("inspected_engine", None)


def functions_of(text: str, calls: Calls) -> tuple[ModuleType, Functions]:
    """Import an engine while recording; return it, and what can be swapped in it."""
    codes = compile_files(ROOT, {FILE: text}, ())
    calls.start()
    module = load("inspected_engine", ROOT, {FILE: text})
    assert calls.stop()
    own = {code for code in calls.take() if code.co_filename == str(ROOT / FILE)}
    return module, Functions(codes, own)


def can_swap(functions: Functions, text: str) -> bool:
    return functions.plan(compile_files(ROOT, {FILE: text}, ())) is not None


@pytest.mark.parametrize("how", INSPECTING)
def test_a_function_whose_code_the_import_reads_is_not_swapped(how: str, calls: Calls) -> None:
    generator = SQUARE.replace("return x * x", "yield x * x")
    text = f"{generator if 'coroutine' in INSPECTING[how] else SQUARE}\n{INSPECTING[how]}\n"
    _, functions = functions_of(text, calls)
    assert can_swap(functions, text.replace("\n\n", "\n\n\n"))
    assert not can_swap(functions, text.replace("x * x", "x + x"))


def test_what_is_read_after_the_recording_does_not_matter(calls: Calls) -> None:
    module, functions = functions_of(SQUARE, calls)
    assert module.square.__code__
    assert not calls.take()
    assert can_swap(functions, SQUARE.replace("x * x", "x + x"))
