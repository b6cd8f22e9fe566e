"""A graded suite sees no code of the engine; everything else works as usual."""

from pathlib import Path
from types import CodeType

import pytest

from harness.engines.loading import compile_files, differ
from harness.grade.blinding import _combine, seal, without_lines
from harness.grade.grading import grade_suite
from harness.grade.plan import plan_grading
from harness.grade.suite import SuiteReport
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE
from tests.harness.grade.test_twins import ENGINE

PRELUDE = """
import gc
import importlib
import inspect
import linecache
import sys
import threading
import types
import unittest
from pathlib import Path

import numpy as np
import pytest

import minigrad


def use():
    a = minigrad.tensor(np.ones(3), requires_grad=True)
    (1 - a).sum().backward()
    assert a.grad.tolist() == [-1.0] * 3


function = minigrad.Tensor.backward
"""

LOOKS = {
    "the code of a function": ("function.__code__", "__code__"),
    "the descriptor": ("types.FunctionType.__code__.__get__(function)", "__code__"),
    "a method": ("minigrad.tensor(1.0).backward.__func__.__code__", "__code__"),
    "inspect": ("inspect.getsource(function)", "__code__"),
    "all objects": ("gc.get_objects()", "gc.get_objects"),
    "what refers to it": ("gc.get_referrers(function)", "gc.get_referrers"),
    "what it refers to": ("gc.get_referents(function)", "gc.get_referents"),
    "frames of threads": ("sys._current_frames()", "sys._current_frames"),
    "memory": ("open('/proc/self/mem', 'rb')", "/proc/self/mem"),
    "modules of Python's own tests": ("importlib.import_module('_testcapi')", "_testcapi"),
    "a forged event": ("sys.audit('object.__getattr__', function, '__code__')", "__code__"),
    "an address": ("importlib.import_module('ctypes').py_object.from_address(8)", "ctypes.cdata"),
    "the keeper": ("keeper().gi_frame", "gi_frame"),
    "the code of the keeper": ("keeper().gi_code", "gi_code"),
}
"""Expressions that must be refused, and what the instructor reads about them."""

KEEPER = """

def keeper():
    frame = sys._getframe()
    while True:
        for value in frame.f_locals.values():
            if type(value).__name__ == "_Suite":
                return value.keeper
        frame = frame.f_back
"""

REFUSED = """

def test_{number}():
    use()
    with pytest.raises((TypeError, RuntimeError, OSError, ImportError)):
        {expression}
"""

OTHERS = '''

def test_there_is_no_text():
    """Neither on the disk nor in memory."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "minigrad":
            assert module.__loader__.get_source(name) == ""
            assert linecache.getlines(module.__file__) == []
            assert Path(module.__file__).read_text() == ""


def test_no_hook_can_be_added():
    events = []
    sys.addaudithook(lambda event, _: events.append(event))
    use()
    assert events == []


def seen_by(install):
    seen = set()

    def note(frame, event, argument):
        seen.add(frame.f_globals["__name__"].partition(".")[0])
        return note

    install(note)
    use()
    install(None)
    return seen


@pytest.mark.parametrize("name", ["settrace", "setprofile"])
def test_a_trace_function_sees_the_suite_and_not_the_engine(name):
    seen = seen_by(getattr(sys, name))
    assert __name__ in seen
    assert not seen & {"minigrad", "harness"}


def test_so_does_one_of_a_thread():
    seen = set()

    def note(frame, event, argument):
        seen.add(frame.f_globals["__name__"].partition(".")[0])

    threading.setprofile(note)
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    threading.setprofile(None)
    assert __name__ in seen
    assert "minigrad" not in seen


def test_a_frame_can_be_had_and_its_code_cannot():
    frames = []

    class Operand:
        def __array__(self, *_, **__):
            frames.append(sys._getframe().f_back)
            return np.ones(3)

    minigrad.tensor(Operand())
    if not recorded():
        with pytest.raises(TypeError):
            frames[0].f_code


def test_the_original_function_is_refused():
    if not recorded():
        with pytest.raises(TypeError):
            importlib.import_module("harness.grade.reach")._setprofile(print)


def recorded():
    """Whether this is the run in which it is recorded what the tests call."""
    return "CodeCalls" in str(sys.getprofile())


def test_what_only_a_module_of_the_engine_may_have():
    names = {"__name__": "minigrad.broadcasting", "__builtins__": __builtins__}
    assert keeper().send(("code", "minigrad/tensor.py", names)) is None
    finder = next(one for one in sys.meta_path if type(one).__name__ == "SealedFinder")
    finder.loaders["minigrad/broadcasting.py"].send(names)
    functions = [value for value in names.values() if type(value) is types.FunctionType]
    assert functions
    for one in functions:
        if one.__globals__ is names:
            with pytest.raises(TypeError):
                one.__code__


def test_the_suites_own_code_is_free():
    assert use.__code__.co_name == "use"
    assert "def use" in inspect.getsource(use)
    assert inspect.signature(np.testing.assert_allclose).parameters
    assert sys._getframe().f_code.co_name.startswith("test_the_suites")


class Cases(unittest.TestCase):
    def test_an_exception_of_the_engine(self):
        with self.assertRaises(ValueError):  # clears the frames
            minigrad.tensor(np.ones(3)) + minigrad.tensor(np.ones(4))


def test_the_engine_can_be_imported_again():
    for name in [name for name in sys.modules if name.partition(".")[0] == "minigrad"]:
        del sys.modules[name]
    again = importlib.import_module("minigrad")
    assert again.Tensor is not minigrad.Tensor
    a = again.tensor(np.ones(3), requires_grad=True)
    (1 - a).sum().backward()
    assert a.grad.tolist() == [-1.0] * 3
    with pytest.raises(TypeError):
        again.Tensor.backward.__code__
'''


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> SuiteReport:
    tests = [
        REFUSED.format(number=number, expression=expression)
        for number, (expression, _) in enumerate(LOOKS.values())
    ]
    file = tmp_path_factory.mktemp("suite") / "test_suite.py"
    file.write_text(PRELUDE + KEEPER + "".join(tests) + OTHERS)
    limits = Limits(seconds=600.0, cpu_seconds=60)
    plan = plan_grading(
        CATALOGUE, ENGINE, open_cache(), selection="sub-sign", correct=(), limits=limits
    )
    return grade_suite(file, plan)


def test_a_suite_can_do_what_it_needs_and_look_at_no_code(report: SuiteReport) -> None:
    assert (report.gradable, report.reason) == (True, "")
    assert [result.fate for result in report.breaks] == ["killed"]
    assert report.flaky == []


@pytest.mark.parametrize("way", LOOKS)
def test_whoever_looks_is_named(way: str, report: SuiteReport) -> None:
    number, what = list(LOOKS).index(way), LOOKS[way][1]
    assert report.refused[f"test_suite.py::test_{number}"] == [what]


def test_who_does_not_look_is_not_named(report: SuiteReport) -> None:
    names = {name.rpartition("::")[2] for name in report.refused}
    assert not names & {"test_the_suites_own_code_is_free", "test_an_exception_of_the_engine", ""}


THREADS = """
import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_a_suite_that_starts_threads_keeps_its_kills(tmp_path: Path) -> None:
    """Nothing is replaced while other threads run, so a new process loads the changed engine."""
    file = tmp_path / "test_suite.py"
    file.write_text(THREADS + PRELUDE + "\n\ndef test():\n    use()\n")
    plan = plan_grading(
        CATALOGUE, ENGINE, open_cache(), selection="sub-sign", correct=(), stages=False
    )
    (result,) = grade_suite(file, plan).breaks
    assert (result.fate, result.path) == ("killed", "reloaded")


# ----- Sealed messages, and code without lines -----


def test_a_sealed_message_is_read_with_its_key_only() -> None:
    nonce, text = bytes(15) + b"1", b"\0the code of a break"
    sealed = seal(b"key", nonce, text)
    assert sealed.startswith(nonce)
    assert text[-5:] not in sealed
    assert seal(b"key", nonce, sealed[16:])[16:] == text
    assert seal(b"other", nonce, sealed[16:])[16:] != text
    assert _combine(b"", b"") == b""


SAMPLE = """
def first(x):
    y = [item
         for item in x]
    return (lambda: 1), (lambda: 1), y


def second(x):
    return first(
        x
    )
"""


def test_everything_is_on_the_first_line_of_its_function() -> None:
    plain = compile(SAMPLE, "file.py", "exec")
    code = without_lines(plain)
    assert not differ(plain, code)
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    assert len(inner) == 2
    for one in inner:
        assert {line for _, _, line in one.co_lines()} == {one.co_firstlineno}
        assert {place[2:] for place in one.co_positions()} == {(None, None)}


def test_equal_functions_on_one_line_remain_different() -> None:
    (first, _) = (one for one in without_lines(compile(SAMPLE, "f", "exec")).co_consts[:2])
    assert isinstance(first, CodeType)
    one, other = (c for c in first.co_consts if isinstance(c, CodeType) and "lambda" in c.co_name)
    assert one != other


def test_code_without_lines_does_the_same() -> None:
    for file, code in compile_files(ENGINE.root, ENGINE.sources, ()).items():
        bare = without_lines(code)
        assert bare.co_code == code.co_code, file
        assert bare.co_filename == str(Path(ENGINE.root) / file)
