"""Every op against PyTorch, central differences and HIPS autograd."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from minigrad import (
    Tensor,
    einsum,
    elementwise,
    indexing,
    linalg,
    logits,
    maximum,
    minimum,
    movement,
    reductions,
    selection,
    where,
)
from tests.minigrad.against_torch import Input, Program, assert_same_as_torch, compare, draw
from tests.minigrad.computing import COMPUTING, TIES
from tests.minigrad.moving import MOVING

OPS: tuple[ModuleType, ...] = (
    elementwise,
    selection,
    reductions,
    logits,
    linalg,
    movement,
    indexing,
)
CASES = COMPUTING | MOVING
SMOOTH = [name for name, case in CASES.items() if all(isinstance(x, tuple) for x in case[1:])]


@pytest.mark.filterwarnings(r"ignore:var\(\). degrees of freedom")  # torch's, where ours is 0/0
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_an_op_agrees_with_torch(name: str, dtype: type[np.floating[Any]]) -> None:
    program, *inputs = CASES[name]
    assert_same_as_torch(program, *inputs, dtype=dtype)


def test_every_op_has_a_case() -> None:
    covered = set()
    with np.errstate(all="ignore"):
        for program, *inputs in CASES.values():
            output = program(*[Tensor(array, requires_grad=True) for array in draw(*inputs)])
            covered |= ops_below(output)
    ops = {
        name
        for module in OPS
        for name, op in inspect.getmembers(module, inspect.isfunction)
        if op.__module__ == module.__name__ and inspect.get_annotations(op)["return"] == "Recorded"
    }
    assert ops == covered


def ops_below(output: Tensor) -> set[str]:
    nodes, ops = [output], set()
    while nodes:
        node = nodes.pop()
        ops |= {node.op} - {""}
        nodes += node.parents
    return ops


# ----- Finite differences, away from kinks -----


def central_differences(
    function: Callable[..., float], inputs: list[Any], step: float = 1e-5
) -> list[np.ndarray]:
    gradients = []
    for array in inputs:
        gradient = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + step
            above = function(*inputs)
            array[place] = kept - step
            gradient[place] = (above - function(*inputs)) / (2 * step)
            array[place] = kept
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("name", [name for name in SMOOTH if "infinite" not in name])
def test_an_op_agrees_with_central_differences(name: str) -> None:
    program, *shapes = CASES[name]
    arrays = draw(*shapes)
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 where there are no elements
        output = program(*leaves)
        weights = np.random.default_rng(9).standard_normal(output.shape)
        output.backward(weights)

        def weighted(*values: Any) -> float:
            return float((program(*[Tensor(value) for value in values]).data * weights).sum())

        for leaf, expected in zip(leaves, central_differences(weighted, arrays), strict=True):
            assert leaf.grad is not None
            np.testing.assert_allclose(leaf.grad, expected, 1e-7, 1e-7, strict=True)


# ----- HIPS autograd, a second opinion -----

OPINIONS: dict[str, tuple[Program, Program, *tuple[Input, ...]]] = {
    "product": (lambda a, b: a * b / a.exp(), lambda a, b: a * b / anp.exp(a), (3, 1), (2, 3, 5)),
    "powers": (lambda a: a**3 - a**-2, lambda a: a**3 - a**-2, (4, 3)),
    "maximum": (lambda a, b: maximum(a, b), anp.maximum, TIES, TIES.T),
    "minimum": (lambda a, b: minimum(a, b), anp.minimum, TIES, TIES.T),
    "where": (  # of equal shapes: autograd 1.9.1 does not sum over the copies of an operand here
        lambda a, b: where(a > 0, a * b, b),
        lambda a, b: anp.where(a > 0, a * b, b),
        (4, 3),
        (4, 3),
    ),
    "var": (lambda a: a.var(1), lambda a: anp.var(a, 1, ddof=1), (4, 3)),
    "ties": (lambda a: a.max(1), lambda a: anp.max(a, 1), TIES),
    "matmul": (lambda a, b: a @ b, anp.matmul, (2, 1, 3, 4), (5, 4, 2)),
    "einsum": (
        lambda a, b: einsum("bij,jk->bk", a, b),
        lambda a, b: anp.einsum("bij,jk->bk", a, b),
        (2, 3, 4),
        (4, 5),
    ),
    "softmax": (
        lambda a: a.softmax(1),
        lambda a: anp.exp(a) / anp.sum(anp.exp(a), 1, keepdims=True),
        (4, 3),
    ),
    "repeated": (lambda a: a[[0, 2, 0]] * 3.0, lambda a: a[[0, 2, 0]] * 3.0, (3, 2)),
}


@pytest.mark.parametrize("name", OPINIONS)
def test_an_op_agrees_with_autograd(name: str) -> None:
    ours, theirs, *inputs = OPINIONS[name]
    arrays = draw(*inputs)
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    output = ours(*leaves)
    weights = np.random.default_rng(9).standard_normal(output.shape)
    output.backward(weights)
    for i, leaf in enumerate(leaves):
        vjp, value = autograd.make_vjp(theirs, i)(*arrays)
        compare("output", output.data, value)
        assert leaf.grad is not None
        compare(f"gradient of input {i}", leaf.grad, vjp(weights))


# ----- The comparison, and what is not computed -----


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
    for _, vjp in (
        linalg.matmul(a, b, wanted=(False, True)),
        linalg.einsum(a, b, subscripts="ij,jk", wanted=(False, True)),
    ):
        da, db = vjp(np.ones((2, 4)))
        assert da is None
        assert db is not None


@pytest.mark.parametrize("constant_first", [True, False])
def test_a_constant_factor_of_a_product_is_not_wanted(constant_first: bool) -> None:
    x: Any = np.ones((2, 2))
    y = Tensor(np.eye(2), requires_grad=True)
    for product in (
        x @ y if constant_first else y @ x,
        einsum("ij,jk", *((x, y) if constant_first else (y, x))),
    ):
        cotangents = product.vjp(np.ones((2, 2)))
        assert [g is None for g in cotangents] == [constant_first, not constant_first]
