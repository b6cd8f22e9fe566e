"""Suites that read a secret and disclose it: no format shows it to a student.

A suite may be able to read what its author may not: without namespaces, that is every file. Each
sample puts `SECRET`, which it reads from a file, into something that a grading reports.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.grade.feedback import Feedback, disclose
from harness.grade.grading import grade_suite
from harness.grade.plan import GradingPlan, plan_grading
from harness.grade.suite import SuiteReport
from harness.report.grading import FORMATS, render
from harness.runs.cache import open_cache
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE

SECRET = "xyzzy_plugh"
FEEDBACK: tuple[Feedback, ...] = ("score", "stage", "names")

HEAD = """
import os
import sys
import unittest
import warnings
from pathlib import Path

import numpy as np
import pytest
from minigrad import tensor

SECRET = Path("secret.txt").read_text()


def use():
    a = tensor(np.ones(3), requires_grad=True)
    (1 - a).sum().backward()
    return a.grad.tolist()


def test_kills():
    assert use() == [-1.0] * 3
"""

REFUSED = {
    "assertion": "def test_a():\n    assert False, SECRET\n",
    "exception type": "def test_a():\n    raise type(SECRET, (Exception,), {})\n",
    "type like a known one": "def test_a():\n    raise type('Value' + SECRET, (ValueError,), {})\n",
    "group": "def test_a():\n    raise ExceptionGroup(SECRET, [KeyError(SECRET)])\n",
    "notes": "def test_a():\n    error = KeyError()\n    error.add_note(SECRET)\n    raise error\n",
    "exit": "def test_a():\n    raise SystemExit(SECRET)\n",
    "base exception": "def test_a():\n    raise type(SECRET, (BaseException,), {})\n",
    "subtest": (
        "class TestA(unittest.TestCase):\n    def test_a(self):\n"
        "        with self.subTest(SECRET, **{SECRET: 1}):\n            self.fail(SECRET)\n"
    ),
    "strict xfail": "@pytest.mark.xfail(reason=SECRET, strict=True)\ndef test_a():\n    pass\n",
    "fixture": "def test_a(request):\n    request.getfixturevalue(SECRET)\n",
    "setup": "@pytest.fixture\ndef a():\n    raise KeyError(SECRET)\n\ndef test_a(a):\n    pass\n",
    "parameter": (
        "@pytest.mark.parametrize('n', [1], ids=[SECRET])\ndef test_a(n):\n    assert False\n"
    ),
    "name": "def fail():\n    assert False\n\nglobals()['test_' + SECRET] = fail\n",
    "class": (
        "class Base:\n    def test_a(self):\n        assert False\n\n"
        "globals()['Test' + SECRET] = type('Test' + SECRET, (Base,), {})\n"
    ),
    "import": "raise KeyError(SECRET)\n",
    "type at the import": "raise type(SECRET, (SyntaxError,), {})(SECRET)\n",
    "module": "__import__(SECRET)\n",
    "module by letters": (
        "x, y, z, p, l, u, g, h, _ = range(9)\nraise ModuleNotFoundError(name='.'.join(SECRET))\n"
    ),
    "pytest.exit": "pytest.exit(SECRET)\n",
    "pytest.skip": "pytest.skip(SECRET)\n",
    "last words": "os.write(2, SECRET.encode())\nos._exit(7)\n",
    "last words of a test": "def test_a():\n    os.write(2, SECRET.encode())\n    os._exit(7)\n",
    "forged collection": (
        "from harness.grade import confined\n"
        "from harness.grade.protocol import Raised\n"
        "made = confined.Collected\n"
        "forged = made([], SECRET, 'raised', SECRET, Raised(SECRET, SECRET, SECRET))\n"
        "confined.Collected = lambda *_, **__: forged\n"
    ),
    "forged ids": (
        "from harness.grade import confined\n"
        "made = confined.Collected\n"
        "name = 'test_suite.py::' + '::'.join(SECRET)\n"
        "ids = (name + '::x' * i for i in range(100))\n"
        "confined.Collected = lambda tests, **_: made([next(ids) for _ in tests])\n"
        "x, y, z, p, l, u, g, h, _ = range(9)\ndef test_a():\n    assert False\n"
    ),
    "on a variant": (
        "def test_a(request):\n    a = tensor(0.0, requires_grad=True)\n    a.relu().backward()\n"
        "    assert a.grad == 0\n\nglobals()['test_' + SECRET] = test_a\ndel test_a\n"
    ),
}

GRADED = """
class TestA:
    pass


for number in range(3):
    setattr(TestA, f"test_{SECRET}_{number}", lambda self: use())


@pytest.mark.parametrize("n", [1, 2], ids=[SECRET, SECRET + "2"])
def test_b(n):
    assert use() == [-1.0] * 3


@pytest.mark.skip(reason=SECRET)
def test_c():
    pass


@pytest.mark.xfail(reason=SECRET)
def test_d():
    assert False, SECRET


def test_e():
    warnings.warn(SECRET)
    print(SECRET)
    assert use() != [1.0] * 3, SECRET


def flaky():
    use()
    assert os.getpid() % 2, SECRET


globals()["test_" + SECRET] = flaky
"""

UNHEARD = ("notes", "module by letters", "last words of a test", "forged ids")
"""What even the instructor does not see, or not in one piece."""

QUICK = ("assertion", "exception type", "parameter", "module by letters", "last words")


def plan(*variants: str) -> GradingPlan:
    return plan_grading(
        CATALOGUE,
        find_engine(),
        open_cache(),
        selection="sub-sign,skip-unbroadcast,tanh-uses-input",
        correct=variants,
        seed=b"secret",
        limits=Limits(seconds=600.0, cpu_seconds=30),
    )


def grade(folder: Path, text: str, *variants: str, conftest: str = "") -> SuiteReport:
    suite = folder / "home" / "suite"
    suite.mkdir(parents=True)
    (suite / "secret.txt").write_text(SECRET)
    (suite / "test_suite.py").write_text(f"{HEAD}\n\n{text}")
    if conftest:
        (suite / "conftest.py").write_text(conftest)
    return grade_suite(suite, plan(*variants))


def shown_to_a_student(report: SuiteReport) -> Iterator[tuple[str, str]]:
    """Every format, at every level of feedback."""
    for feedback, form in itertools.product(FEEDBACK, FORMATS):
        if form != "sarif" or feedback == "names":
            yield f"{form}, {feedback}", render(disclose(report, feedback, to_student=True), form)


def require_hidden(report: SuiteReport) -> None:
    for where, text in shown_to_a_student(report):
        lean = text.lower().replace(".", "").replace(":", "")
        assert SECRET not in lean, where
        assert SECRET[:5] not in lean, where


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in REFUSED],
)
def test_no_student_reads_what_a_refused_suite_says(kind: str, tmp_path: Path) -> None:
    variants = ["relu-mask-ge"] if kind == "on a variant" else []
    report = grade(tmp_path, REFUSED[kind], *variants)
    assert not report.gradable
    assert report.stated
    require_hidden(report)
    assert (SECRET in render(disclose(report), "json")) == (kind not in UNHEARD), report.reason


def test_no_student_reads_what_a_graded_suite_says(tmp_path: Path) -> None:
    report = grade(tmp_path, GRADED)
    assert (report.gradable, report.reason, report.tests) == (True, "", 7)
    require_hidden(report)
    assert SECRET in render(disclose(report), "json")
    stage = disclose(report, "stage")
    shown = {name for one in stage.breaks or () for name in (*one.by, *one.reached_by)}
    assert {"test_suite.py::test_b[1]", "test_suite.py::test_b[2]", "test number 2"} <= shown
    assert len(stage.flaky) == 1
    assert stage.flaky[0].startswith("test number ")


HOOKS = """
from pathlib import Path

import pytest

SECRET = Path("secret.txt").read_text()
ids = pytest.Item.nodeid.fget
pytest.Item.nodeid = property(lambda item: f"{ids(item)}::{SECRET}")


def pytest_configure(config):
    config.addinivalue_line("markers", SECRET)


def pytest_itemcollected(item):
    item.user_properties.append((SECRET, SECRET))
    item.name = SECRET


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.skipif("False", reason=SECRET))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.longrepr, report.nodeid = SECRET, SECRET
    report.sections.append((SECRET, SECRET))


def pytest_warning_recorded(warning_message):
    warning_message.message = SECRET
"""

PROPERTIES = """
def test_a(record_property, record_testsuite_property, capsys):
    record_property(SECRET, SECRET)
    record_testsuite_property(SECRET, SECRET)
    print(SECRET)
    warnings.warn(type(SECRET, (UserWarning,), {})(SECRET))
    assert use() == [-1.0] * 3
"""


def test_no_student_reads_what_hooks_and_properties_say(tmp_path: Path) -> None:
    report = grade(tmp_path, PROPERTIES, conftest=HOOKS)
    assert (report.gradable, report.reason, report.tests) == (True, "", 2)
    require_hidden(report)
    assert SECRET in render(disclose(report), "json")


SEARCHING = """
import re

import numpy as np


class Memory:
    def __init__(self, start, end):
        self.__array_interface__ = {
            "data": (start, True), "shape": (end - start,), "typestr": "|u1", "version": 3
        }


def test_memory():
    found = set()
    with open("/proc/self/maps") as maps:
        ranges = [line.split() for line in maps if line.split()[1] == "rw-p"]
    for span, *_ in ranges:
        start, end = (int(number, 16) for number in span.split("-"))
        memory = np.asarray(Memory(start, end)).tobytes()
        found.update(re.findall(rb"(?:mine|theirs)-[0-9]+-", memory))
    raise KeyError(*sorted(name.decode() for name in found)[:9])


# mine-1-
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory is not listed here")
def test_no_suite_finds_another_in_its_memory(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    theirs = "".join(f"# theirs-{number}-\n" for number in range(20_000))
    assert grade(tmp_path / "first", theirs).gradable
    report = grade(tmp_path / "second", SEARCHING)  # its processes have the same host
    assert report.reason.endswith("fails on the correct engine: KeyError: 'mine-1-'")
