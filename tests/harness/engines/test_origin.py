"""Whose code raised an exception, and whether the backward pass was running."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.run import FailureOrigin, Raiser
from harness.engines.adapter import open_library
from harness.engines.calling import origin_of
from harness.engines.engine import Dialect
from harness.engines.loading import load

ENGINE = """\
import numpy as np


class Tensor:
    def __init__(self, data):
        self.data, self.grad, self.rule = np.array(data, float), None, None

    def backward(self, g):
        self.rule(g)

    def of(self, rule):
        out = Tensor(self.data)
        out.rule = rule
        return out

    def __mul__(self, other):
        return self.of(lambda g: g.nothing)

    def sum(self):
        return self.of(lambda g: np.zeros(2) + np.zeros(3))

    def refuse(self):
        raise ValueError("no")

    def assure(self):
        assert self.data.ndim == 9, "no"

    def misspell(self):
        raise ValueError(f"{self.nothing}")

    def pass_on(self):
        try:
            self.data.reshape(7, 7)
        except ValueError:
            raise

    def old(self):
        return np.float(1)

    def refuse_at_length(self):
        raise TypeError(
            "no"
        )

    def older(self):
        from numpy import float as number
        return number
"""
HERE = Dialect(
    module="origin_engine",
    leaf="Tensor(data)",
    value="t.data",
    gradient="t.grad",
    backward="t.backward(cotangent)",
    kind="arrays",
)
WEIGHTED = replace(HERE, backward="(t * Tensor(cotangent)).backward(cotangent)")
FUNCTIONAL = replace(HERE, pull="(function(data), lambda g: g.nothing)", kind="functional")
ONES = np.ones(3)


@pytest.fixture
def opened() -> Iterator[Callable[[Dialect], Any]]:
    """Open the engine, loaded from memory, as a library."""
    finders, written = list(sys.meta_path), sys.dont_write_bytecode
    module = load(HERE.module, Path("/nowhere"), {"origin_engine.py": ENGINE})
    yield lambda dialect: open_library(dialect, module)
    sys.meta_path[:], sys.dont_write_bytecode = finders, written
    del sys.modules[HERE.module]


def origin(call: Callable[[], object]) -> FailureOrigin:
    with pytest.raises(Exception) as raised:  # noqa: PT011  any of them
        call()
    found = origin_of(raised.value, probe=__file__)
    assert found is not None
    return found


def line(text: str) -> int:
    return next(i for i, row in enumerate(ENGINE.splitlines(), 1) if text in row)


ASSERTION = (
    'assert self.data.ndim == 9, "no"' if sys.version_info[:2] == (3, 12) else "self.data.ndim == 9"
)
"""Where Python says that an assertion failed: only 3.12 does not say that it was the condition."""

FORWARD: dict[str, tuple[Raiser, str, str]] = {
    "refuse": ("statement", 'raise ValueError("no")', 'raise ValueError("no")'),
    "assure": ("statement", "assert self.data.ndim", ASSERTION),
    "misspell": ("engine", "{self.nothing}", "self.nothing"),
    "pass_on": ("engine", "self.data.reshape(7, 7)", "self.data.reshape(7, 7)"),
    "refuse_at_length": ("statement", "raise TypeError(", 'raise TypeError( "no" )'),
}


@pytest.mark.parametrize("method", FORWARD)
def test_a_statement_of_the_engine_or_what_its_code_calls(opened: Any, method: str) -> None:
    raiser, text, statement = FORWARD[method]
    found = origin(getattr(opened(HERE).leaf(ONES), method))
    place = ("origin_engine.py", line(text), f"Tensor.{method}", statement)
    assert found == FailureOrigin(raiser, *place, accepted=raiser == "engine")


def test_the_call_of_the_engine_and_not_its_code(opened: Any) -> None:
    x = opened(HERE).leaf(ONES)
    for call in (lambda: x - x, lambda: x[0], lambda: -x, lambda: x.sum(dim=1), lambda: 2 * x):
        assert origin(call) == FailureOrigin("call")


def test_the_adapter_and_the_probe(opened: Any) -> None:
    x = opened(HERE).leaf(ONES)
    assert origin(lambda: x.item()) == FailureOrigin("adapter")
    assert origin(lambda: x.detach(1)) == FailureOrigin("probe")


def test_a_rule_and_what_it_calls(opened: Any) -> None:
    library = opened(HERE)
    x = library.leaf(ONES)
    for y, text, rule in (
        (x * x, "g.nothing", "__mul__"),
        (x.sum(), "np.zeros(2) + np.zeros(3)", "sum"),
    ):
        found = origin(lambda y=y: library.backward(y, ONES))
        place = ("origin_engine.py", line(text), f"Tensor.{rule}.<locals>.<lambda>", text)
        assert found == FailureOrigin("engine", *place, in_backward=True, accepted=True)
    assert origin(lambda: (x * x).backward()).in_backward


def test_what_is_computed_before_the_backward_pass_is_not_in_it(opened: Any) -> None:
    library = opened(WEIGHTED)
    x = library.leaf(ONES)
    assert origin(lambda: library.backward(x * x, ONES)).in_backward
    x.native.data = "no array"
    broken = replace(WEIGHTED, backward="(t * Tensor('x')).backward(cotangent)")
    before = origin(lambda: opened(broken).backward(x, ONES))
    assert (before.raiser, before.in_backward) == ("engine", False)


def test_a_vjp_is_a_backward_pass(opened: Any) -> None:
    library = opened(FUNCTIONAL)
    x = library.leaf(ONES)
    y = library.call(lambda x: x, (), {"x": x})
    assert origin(lambda: library.backward(y, ONES)).in_backward


@pytest.mark.parametrize("method", ["old", "older"])
def test_a_name_that_numpy_no_longer_has(opened: Any, method: str) -> None:
    found = origin(getattr(opened(HERE).leaf(ONES), method))
    assert (found.missing, found.line > line(f"def {method}(")) == ("numpy.float", True)


def test_an_exception_that_was_never_raised_has_no_origin() -> None:
    assert origin_of(ValueError()) is None
