"""The engine that is wrong everywhere: every test with a working assertion fails on it."""

from __future__ import annotations

from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.grade.exercise import _read_tests, judge_tests
from harness.grade.probes import prepare_bare
from harness.runs.cache import Cache
from tests.harness.bundled import CATALOGUE

SUITE = """\
import numpy as np


def _grads(lib, function, *shapes):
    rng = np.random.default_rng(0)
    leaves = [lib.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    function(*leaves).sum().backward()
    return [leaf.data for leaf in leaves], [leaf.grad for leaf in leaves]


def test_one_op(lib):
    _, (a,) = _grads(lib, lambda a: a, 3)
    assert np.allclose(a, 1)


def test_a_product(lib):
    (a, b), (da, db) = _grads(lib, lambda a, b: a * b, 3, 3)
    assert np.allclose(da, b)


def test_a_longer_chain(lib):
    _, (a,) = _grads(lib, lambda a: a * 2.0 * 3.0, 3)
    assert np.allclose(a, 6)


def test_an_even_longer_chain(lib):
    _, (a,) = _grads(lib, lambda a: a * 2.0 * 3.0 * 5.0, 3)
    assert np.allclose(a, 30)


def test_a_square(lib):
    (a,), (da,) = _grads(lib, lambda a: a * a, 3)
    assert np.allclose(da, 2 * a)


def test_half_a_square_of_a_matrix(lib):
    (a,), (da,) = _grads(lib, lambda a: a * a * 0.5, (2, 3))
    assert np.allclose(da, a)


def test_no_slope(lib):
    _, (a,) = _grads(lib, lambda a: a * 0.0, (2, 3))
    assert np.allclose(a, 0)


def test_equal_gradients(lib):
    _, (a, b) = _grads(lib, lambda a, b: a + b, (2, 3), (2, 3))
    assert np.allclose(a, b)


def test_opposite_gradients(lib):
    _, (a, b) = _grads(lib, lambda a, b: a - b, 3, 3)
    assert np.allclose(a, -b)


def test_accumulated(lib):
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    (a * 3.0).sum().backward()
    (a * 3.0).sum().backward()
    assert np.allclose(a.grad, 6)


def test_a_product_of_matrices(lib):
    (a, b), (da, db) = _grads(lib, lambda a, b: a @ b, (2, 3), (3, 4))
    assert np.allclose(da, np.ones((2, 4)) @ b.T)
"""


def test_no_fault_cancels_another() -> None:
    """A sign that was wrong twice was right: a working assertion must fail on this engine."""
    tests = tuple(_read_tests(SUITE, "suite.py", 1))
    context = OpenContext(CATALOGUE, find_engine(), Baseline(Cache(None)))
    clean = context.baseline.clean(context.engine, tests)
    assert {name: str(key.run.failure) for (name, _), key in clean.items() if key.run.failure} == {}
    control = CATALOGUE.page("sabotage", "control")
    fates = judge_tests(prepare_bare(control, tests, context), context.baseline)
    assert [name for name, fate in fates.items() if not fate.by_assertion] == []
