"""The portable blocks of the catalogue, on engines that are built in eight other ways."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from harness.core.errors import DoesNotApply
from harness.engines.engine import Dialect, Engine
from harness.engines.location import locate
from harness.experiment.patching import apply_first, check_blocks, patches
from harness.pages.page import Page
from harness.patch import Patch, Patched, apply_patch
from tests.engines.programs import MISSING, gradients, programs_of
from tests.harness.bundled import bundled_pages

FOLDER = Path(__file__).parents[2] / "engines"
PAGES = {page.id: page for page in bundled_pages() if "portable" in page.body and page.portable}
INSTALLED = ("autograd", "mygrad", "micrograd")
NOT_SEEN_IN_ONE_WALK = {"no-zero-grad-in-loop"}
"""Breaks that need a second backward, or a step."""
EVERYWHERE = {"forward-order", "no-seed"}
"""Breaks that leave no gradient right."""


def small(name: str) -> Engine:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return Engine(name, Dialect(module=name), FOLDER, {f"{name}.py": text}, foreign=True)


def installed(name: str) -> Engine:
    target = locate(name)
    sources = {file: text for file, text in target.sources.items() if "test" not in file}
    return Engine(name, Dialect(module=name), target.root, sources, foreign=True)


def candidates(page: Page, engine: Engine) -> list[Patch]:
    """The patches to try, read once for all engines without a block or names of their own."""
    if page.diffs_for(engine.name) or engine.names:
        return patches(page, engine)
    return _blocks(page.id)


@cache
def _blocks(page_id: str) -> list[Patch]:
    return patches(PAGES[page_id], Engine("other", Dialect("other"), FOLDER, {}, foreign=True))


def patch_of(page: Page, engine: Engine) -> Patched | None:
    try:
        return apply_first(candidates(page, engine), engine.sources)
    except DoesNotApply:
        return None


@pytest.fixture(scope="module")
def patched() -> dict[tuple[str, str], Patched]:
    found = {
        (page_id, name): patch_of(page, small(name))
        for name in MISSING
        for page_id, page in PAGES.items()
    }
    return {pair: patch for pair, patch in found.items() if patch is not None}


def load(name: str, patch: Patched) -> ModuleType:
    module = ModuleType(f"broken.{name}")
    exec(compile(patch.sources[f"{name}.py"], f"{name}.py", "exec"), module.__dict__)  # noqa: S102
    return module


def test_many_pages_have_portable_blocks_and_all_can_be_read() -> None:
    assert len(PAGES) >= 30
    assert [str(error) for page in PAGES.values() for error in check_blocks(page)] == []


def test_every_small_engine_is_broken_by_many_pages(
    patched: dict[tuple[str, str], Patched],
) -> None:
    count = {name: sum(engine == name for _, engine in patched) for name in MISSING}
    assert min(count.values()) >= 8, count


def changes(name: str, patch: Patched) -> Iterator[bool]:
    """Whether each program now ends otherwise than in the right gradients."""
    broken = load(name, patch)
    clean = sys.modules[f"tests.engines.{name}"]
    for program, weighted in product(programs_of(name), (True, False)):
        right = gradients(clean, program, weighted)
        try:
            pairs = list(zip(gradients(broken, program, weighted), right, strict=True))
            yield any(
                np.shape(one) != np.shape(other) or not np.allclose(one, other)
                for one, other in pairs
            )
        except Exception:
            yield True


@pytest.mark.parametrize("name", MISSING)
def test_a_portable_break_breaks_something_and_not_everything(
    name: str, patched: dict[tuple[str, str], Patched]
) -> None:
    __import__(f"tests.engines.{name}")
    wrong = []
    for (page_id, engine), patch in patched.items():
        if engine == name and page_id not in NOT_SEEN_IN_ONE_WALK:
            seen = list(changes(name, patch))
            if not any(seen) or (all(seen) and page_id not in EVERYWHERE):
                wrong.append(f"{page_id}: {'all' if any(seen) else 'nothing'}\n{patch.diff()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "micrograd" else pytest.mark.slow) for n in INSTALLED],
)
def test_installed_engines_are_broken_by_many_pages(name: str) -> None:
    pytest.importorskip(name)
    engine = installed(name)
    assert len(list(islice(filter(None, (patch_of(p, engine) for p in PAGES.values())), 10))) == 10


OTHERS = {
    f"{op}.py": f"""
class {op}:
    def inline(self, grad, shape):
        while grad.ndim > len(shape):
            grad = grad.sum(axis=0)
        for axis, size in enumerate(shape):
            if size == 1:
                grad = grad.sum(axis=axis, keepdims=True)

    def only_where_needed(self, grad):
        if grad.shape != self.data.shape:
            grad = np.sum(grad, axis=self.axes, keepdims=True)

    def reshaped(self, grad):
        return np.reshape(np.sum(grad, axis=self.axes), self.shape)

    def method(self, grad):
        return grad.sum_to(self.shape)

    def by_keyword(self, grad):
        return unbroadcast(grad, shape=self.shape)

    def accumulate(self, grad):
        self.grad += grad.sum_to(self.shape)

    def one_after_the_other(self):
        def backward():
            self.grad += unbroadcast(out.grad, self.shape)
            other.grad += unbroadcast(-out.grad, other.shape)
            self._accumulate(unbroadcast(out.grad, self.shape))
            other._accumulate(unbroadcast(-out.grad, other.shape))

    def guarded(self):
        def backward():
            self.grad += unbroadcast(out.grad * other.data, self.shape)
            if other.requires_grad:
                other.grad += unbroadcast(out.grad * self.data, other.shape)

    def bare(self):
        def backward():
            self.grad += out.grad * other.data
            other.grad += out.grad * self.data

    def rebound(self):
        self.grad = self.grad + unbroadcast(grad * other.data, self.shape)
        other.grad = other.grad + unbroadcast(grad * self.data, other.shape)

    def in_two_steps(self, grad):
        left = grad * b
        right = grad * a
        left = unbroadcast(left, a.shape)
        right = unbroadcast(right, b.shape)
        return grad * b, grad * a
"""
    for op in ("add", "sub", "mul", "div", "matmul")
}
OTHERS["arrivals.py"] = """
class Tensor:
    def acc_grad(self, grad):
        for _ in range(grad.ndim - self.data.ndim):
            grad = grad.sum(axis=0)
        for i, n in enumerate(self.data.shape):
            if n == 1 and grad.shape[i] > 1:
                grad = grad.sum(axis=i, keepdims=True)
        self.grad += grad

    def _accumulate(self, grad):
        lead = grad.ndim - self.data.ndim
        if lead > 0:
            grad = grad.sum(axis=tuple(range(lead)))
        ones = tuple(i for i, n in enumerate(self.data.shape) if n == 1)
        if ones:
            grad = grad.sum(axis=ones, keepdims=True)
        self.grad += grad

    def _acc(self, grad):
        grad = grad.sum(axis=tuple(range(grad.ndim - self.data.ndim)))
        ones = tuple(i for i, n in enumerate(self.data.shape) if n == 1)
        grad = grad.sum(axis=ones, keepdims=True)
        self.grad += grad

    def accumulate_grad(self, grad):
        if grad.shape != self.data.shape:
            lead = grad.ndim - self.data.ndim
            grad = grad.sum(axis=tuple(range(lead)))
            for i, n in enumerate(self.data.shape):
                if n == 1:
                    grad = grad.sum(axis=i, keepdims=True)
        self.grad += grad
"""
OTHERS["formulas.py"] = """
class Tensor:
    def __sub__(self, other):
        def _backward():
            self.grad += out.grad
            other.grad -= out.grad

    def __rsub__(self, other):
        return -self + other

    def log(self):
        def _backward():
            self.grad += (1 / self.data) * out.grad

    def __pow__(self, k):
        def _backward():
            self.grad += out.grad * k * self.data ** (k - 1)

    def sqrt(self):
        def _backward():
            self.grad += (0.5 / out.data) * out.grad

    def sigmoid(self):
        def _backward():
            self.grad += out.data * (1 - out.data) * out.grad

    def mean(self):
        def _backward():
            self.grad += out.grad * (np.ones_like(self.data) / self.data.size)

    def sum(self, axis):
        def _backward():
            grad = out.grad
            grad = np.expand_dims(grad, axis)

    def reshape(self, shape):
        def _backward():
            self.grad += out.grad.reshape(self.shape)

    def backward(self):
        self.grad = 1.0
        for function in functions:
            functions.sort(key=lambda f: f.generation)

class Log(Function):
    def backward(self, gy):
        return (1.0 / self.x) * gy

class Sqrt(Function):
    def backward(self, gy):
        return 0.5 * self.x ** -0.5 * gy

class ReLU(Function):
    def backward(self, gy):
        return np.where(self.x > 0, gy, 0)

class Other:
    def __rsub__(self, other):
        return Tensor(other) - self

    def __rtruediv__(self, other):
        return Tensor(other) / self

def rsub(a, b):
    return Sub()(b, a)

class SGD:
    def step(self):
        for p in self.params:
            p.data -= self.lr * p.grad
            p.data = p.data - self.lr * p.grad
"""
"""Code as it is found in other engines."""


def _fits(patch: Patch, engine: Engine) -> bool:
    try:
        return bool(apply_patch(replace(patch, sites=None), engine.sources).sites)
    except DoesNotApply:
        return False


def test_every_portable_block_fits_somewhere() -> None:
    """On an engine, or on code as it is found in others; a block that fits none says nothing."""
    engines = [*map(small, MISSING), Engine("others", Dialect("o"), FOLDER, OTHERS, foreign=True)]
    for name in INSTALLED:
        pytest.importorskip(name)
        engines.append(replace(installed(name), name="some"))
    useless = {}
    for page in PAGES.values():
        left = set(range(len(page.portable)))
        for engine in engines:
            if left:
                blocks = candidates(page, engine)
                left = {index for index in left if not _fits(blocks[index], engine)}
        useless |= {page.id: left} if left else {}
    assert not useless
