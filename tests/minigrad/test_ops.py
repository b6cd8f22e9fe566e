"""Every op against PyTorch: one line a case."""

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, elementwise, linalg, movement, reductions
from minigrad.autodiff import topological_order
from tests.minigrad.against_torch import Input, Program, assert_same_as_torch, compare, draw

OPS: tuple[ModuleType, ...] = (elementwise, reductions, linalg, movement)

TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, 0.5, 0.2]])
KINKS = np.array([-2.0, -0.0, 0.0, 3.0])
NOT_FINITE = np.array([np.nan, np.inf, -np.inf, 1.0])
TURNED = np.linspace(-2.0, 2.0, 6).reshape(2, 3).T
MASK = np.array([True, False, True])
REPEATED = np.array([2, 0, 2, 2])

Case = tuple[Program, *tuple[Input, ...]]

CASES: dict[str, Case] = {
    # ----- Two operands -----
    "add": (lambda a, b: a + b, (4, 3), (4, 3)),
    "add, created axis": (lambda a, b: a + b, (3,), (4, 3)),
    "add, two created axes": (lambda a, b: a + b, (3,), (2, 4, 3)),
    "add, column": (lambda a, b: a + b, (3, 1), (3, 5)),
    "add, both stretched": (lambda a, b: a + b, (3, 1), (1, 5)),
    "add, created and stretched": (lambda a, b: a + b, (3, 1), (2, 3, 5)),
    "add, length one": (lambda a, b: a + b, (1,), (1, 1)),
    "add, scalar": (lambda a, b: a + b, (), (4, 3)),
    "add, scalars": (lambda a, b: a + b, (), ()),
    "add, empty": (lambda a, b: a + b, (1, 3), (0, 3)),
    "add, strided view": (lambda a, b: a[::2, ::3] + b, (4, 6), (2,)),
    "add, turned": (lambda a, b: a + b, TURNED, (3, 2)),
    "add, number": (lambda a: 2 + a + 0.5, (4, 3)),
    "sub": (lambda a, b: a - b, (4, 3), (3, 1, 3)),
    "sub, column": (lambda a, b: a - b, (3, 5), (3, 1)),
    "sub, number": (lambda a: 2 - (a - 0.5), (3,)),
    "mul": (lambda a, b: a * b, (4, 3), (4, 3)),
    "mul, column": (lambda a, b: a * b, (3, 1), (3, 5)),
    "mul, scalar": (lambda a, b: a * b, (2, 3), ()),
    "mul, empty": (lambda a, b: a * b, (2, 0), (1,)),
    "mul, number": (lambda a: 2 * a * 0.5, (3,)),
    "mul, with itself": (lambda a: a * a, (3,)),
    "div": (lambda a, b: a / b, (4, 3), (4, 3)),
    "div, denominator stretched": (lambda a, b: a / b, (3, 5), (3, 1)),
    "div, numerator stretched": (lambda a, b: a / b, (1,), (2, 3)),
    "div, number": (lambda a: 2 / (a / 0.5), (3,)),
    # ----- One operand -----
    "neg": (lambda a: -a, (4, 3)),
    "pow 3": (lambda a: a**3, (4, 3)),
    "pow -2": (lambda a: a**-2, (3,)),
    "pow 0.5": (lambda a: a.exp() ** 0.5, (3,)),
    "pow 1": (lambda a: a.pow(1), KINKS),
    "pow 0": (lambda a: a**0, KINKS),
    "pow -1 at 0": (lambda a: a**-1, KINKS),
    "exp": (lambda a: a.exp(), (4, 3)),
    "exp, scalar": (lambda a: a.exp(), ()),
    "exp, not finite": (lambda a: a.exp(), NOT_FINITE),
    "log": (lambda a: a.exp().log(), (4, 3)),
    "log, kinks": (lambda a: a.log(), KINKS),
    "tanh": (lambda a: a.tanh(), (4, 3)),
    "tanh, not finite": (lambda a: a.tanh(), NOT_FINITE),
    "relu": (lambda a: a.relu(), (4, 3)),
    "relu, kinks": (lambda a: a.relu(), KINKS),
    "relu, not finite": (lambda a: a.relu(), NOT_FINITE),
    "relu, infinite cotangent": (lambda a: (a.relu() + 1).log() / 0, KINKS),
    "abs": (lambda a: a.abs(), (4, 3)),
    "abs, kinks": (lambda a: a.abs(), KINKS),
    # ----- Reductions -----
    "sum": (lambda a: a.sum(), (4, 3)),
    "sum, of a scalar": (lambda a: a.sum(), ()),
    "sum, empty": (lambda a: a.sum(), (0, 3)),
    "sum 0": (lambda a: a.sum(0), (4, 3)),
    "sum -1": (lambda a: a.sum(-1), (2, 4, 3)),
    "sum 1, square": (lambda a: a.sum(1), (3, 3)),
    "sum 1, keepdim": (lambda a: a.sum(1, keepdim=True), (2, 4, 3)),
    "sum (0, -1)": (lambda a: a.sum((0, -1)), (2, 4, 3)),
    "sum (-1, 0), keepdim": (lambda a: a.sum(dim=(-1, 0), keepdim=True), (2, 4, 3)),
    "sum 0, empty": (lambda a: a.sum(0), (0, 3)),
    "sum, strided view": (lambda a: a[::2, ::3].sum(0), (4, 6)),
    "mean": (lambda a: a.mean(), (4, 3)),
    "mean, empty": (lambda a: a.mean(), (0, 3)),
    "mean 0": (lambda a: a.mean(0), (4, 3)),
    "mean 1, keepdim": (lambda a: a.mean(1, keepdim=True), (2, 4, 3)),
    "mean (0, 2)": (lambda a: a.mean((0, 2)), (2, 4, 3)),
    "mean 1, empty": (lambda a: a.mean(1), (0, 3)),
    "max": (lambda a: a.max(), (4, 3)),
    "max, ties": (lambda a: a.max(), TIES),
    "max, not finite": (lambda a: a.max(), NOT_FINITE),
    "max 1": (lambda a: a.max(1), (4, 3)),
    "max 1, ties": (lambda a: a.max(1), TIES),
    "max 0, ties, keepdim": (lambda a: a.max(0, keepdim=True), TIES),
    "max (0, -1)": (lambda a: a.max((0, -1)), (2, 4, 3)),
    "max 1, empty": (lambda a: a.max(1), (0, 3)),
    # ----- Linear algebra -----
    "matmul": (lambda a, b: a @ b, (3, 4), (4, 5)),
    "matmul, square": (lambda a, b: a @ b, (3, 3), (3, 3)),
    "matmul, column": (lambda a, b: a @ b, (3, 1), (1, 5)),
    "matmul, vectors": (lambda a, b: a @ b, (4,), (4,)),
    "matmul, row": (lambda a, b: a @ b, (4,), (4, 5)),
    "matmul, vector": (lambda a, b: a.matmul(b), (3, 4), (4,)),
    "matmul, batch": (lambda a, b: a @ b, (2, 3, 4), (2, 4, 5)),
    "matmul, batch and matrix": (lambda a, b: a @ b, (2, 3, 4), (4, 5)),
    "matmul, matrix and batch": (lambda a, b: a @ b, (3, 4), (2, 4, 5)),
    "matmul, batch and vector": (lambda a, b: a @ b, (2, 3, 4), (4,)),
    "matmul, row and batch": (lambda a, b: a @ b, (4,), (2, 4, 5)),
    "matmul, batches stretched": (lambda a, b: a @ b, (2, 1, 3, 4), (5, 4, 1)),
    "matmul, batch of one": (lambda a, b: a @ b, (1, 3, 4), (4, 5)),
    "matmul, empty batch": (lambda a, b: a @ b, (0, 3, 4), (4, 5)),
    "matmul, inner length 0": (lambda a, b: a @ b, (3, 0), (0, 5)),
    "matmul, strided view": (lambda a, b: a[::2, ::3] @ b.T, (4, 6), TURNED[:, :2]),
    # ----- Movement -----
    "reshape": (lambda a: a.reshape(2, 6), (4, 3)),
    "reshape -1": (lambda a: a.reshape((2, -1)), (4, 3)),
    "reshape, to a scalar": (lambda a: a.reshape(()), (1, 1)),
    "reshape, empty": (lambda a: a.reshape(0), (0, 3)),
    "reshape, turned": (lambda a: a.reshape(6), TURNED),
    "transpose": (lambda a: a.transpose(0, 1), (4, 3)),
    "transpose 0 -1": (lambda a: a.transpose(0, -1), (2, 4, 3)),
    "permute": (lambda a: a.permute(1, 2, 0), (2, 4, 3)),
    "permute, negative": (lambda a: a.permute((-1, 0, -2)), (2, 4, 3)),
    "permute, scalar": (lambda a: a.permute(()), ()),
    "T": (lambda a: a.T, (4, 3)),
    "mT": (lambda a: a.mT, (2, 4, 3)),
    "getitem, integer": (lambda a: a[1], (4, 3)),
    "getitem, integers": (lambda a: a[-1, 0], (4, 3)),
    "getitem, slice": (lambda a: a[1:3], (4, 3)),
    "getitem, steps": (lambda a: a[::2, 1], (4, 3)),
    "getitem, nothing": (lambda a: a[3:3], (4, 3)),
    "getitem, ellipsis": (lambda a: a[..., 0], (2, 4, 3)),
    "getitem, new axis": (lambda a: a[:, None], (4, 3)),
    "getitem, mask": (lambda a: a[MASK], (3, 2)),
    "getitem, mask of all axes": (lambda a: a[TIES > 2], (3, 3)),
    "getitem, list": (lambda a: a[[0, 2, 0]], (3, 2)),
    "getitem, repeated": (lambda a: a[REPEATED], (3, 2)),
    "getitem, repeated in a column": (lambda a: a[:, REPEATED], (2, 3)),
    "getitem, pairs": (lambda a: a[REPEATED, [0, 1, 0, 0]], (3, 2)),
    # ----- Several ops -----
    "reused leaf": (lambda a: a * a + a, (3,)),
    "reused interior node": (lambda a: (h := a.exp()) + h * h, (3,)),
    "skewed diamond": (lambda a: (h := a.exp()) * h.tanh().exp().abs(), (3,)),
    "twice in a sum": (lambda a, b: ((a + b) + a) + b, (3,), (3,)),
    "stretched inside": (lambda a: a + a.mean(1, keepdim=True), (3, 5)),
    "two layers": (lambda x, w, v: (x @ w.T).tanh() @ v, (5, 3), (4, 3), (4, 2)),
    "softmax": (lambda a: (e := (a - a.mean()).exp()) / e.sum(1, keepdim=True), (4, 3)),
}


def torch_twin(name: str, program: Program) -> Program:
    """PyTorch's `max(dim)` is another function: what ours does is its `amax`."""
    if not name.startswith("max"):
        return program

    class Amax:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def max(self, dim: Any = (), keepdim: bool = False) -> Any:
            return self.tensor.amax(dim, keepdim)

    return lambda a: program(Amax(a))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_an_op_agrees_with_torch(name: str, dtype: type[np.floating[Any]]) -> None:
    program, *inputs = CASES[name]
    assert_same_as_torch(program, *inputs, torch_program=torch_twin(name, program), dtype=dtype)


def test_every_op_has_a_case() -> None:
    covered = set()
    with np.errstate(all="ignore"):
        for program, *inputs in CASES.values():
            output = program(*[Tensor(array, requires_grad=True) for array in draw(*inputs)])
            covered |= {node.op for node in topological_order(output)}
    ops = {
        name
        for module in OPS
        for name, op in inspect.getmembers(module, inspect.isfunction)
        if op.__module__ == module.__name__ and not name.startswith("_")
    }
    assert ops == covered - {""}


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        (np.float64(1), "a float64, not an array"),
        (np.ones(1), r"shape \(1,\), not \(\)"),
        (np.array(1, np.float32), "dtype float32, not float64"),
        (np.array(1 + 1e-9), "Mismatched elements"),
    ],
)
def test_the_comparison_notices(actual: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        compare("this", actual, np.array(1.0))


def test_a_product_that_nobody_wants_is_not_computed() -> None:
    a, b = np.ones((2, 3)), np.ones((3, 4))
    _, vjp = linalg.matmul(a, b, wanted=(False, True))
    da, db = vjp(np.ones((2, 4)))
    assert da is None
    assert db is not None


@pytest.mark.parametrize("constant_first", [True, False])
def test_a_constant_factor_of_a_product_is_not_wanted(constant_first: bool) -> None:
    x: Any = np.ones((2, 2))
    y = Tensor(np.eye(2), requires_grad=True)
    product = x @ y if constant_first else y @ x
    cotangents = product.vjp(np.ones((2, 2)))
    assert [g is None for g in cotangents] == [constant_first, not constant_first]
