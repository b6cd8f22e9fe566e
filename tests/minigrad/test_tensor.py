"""What a tensor is: its dtype, its dealings with NumPy and numbers, its view of itself."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import minigrad
from minigrad import Tensor

F32, F64, I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [(1.0, F64), ([1.0, 2], F64), (1, I64), ([True], np.bool_), (np.ones(2, np.float32), F32)],
)
def test_the_data_decides_the_dtype(data: Any, dtype: np.dtype[Any]) -> None:
    assert Tensor(data).dtype == dtype
    assert minigrad.tensor(data).dtype == dtype
    assert minigrad.tensor(data, dtype=np.float16).dtype == np.float16


def test_the_data_is_copied() -> None:
    array = np.zeros(2)
    tensor, factored = Tensor(array), minigrad.tensor(array)
    array[0] = 1
    assert tensor.data[0] == factored.data[0] == 0


def test_tensor_takes_torchs_keywords() -> None:
    made = minigrad.tensor([1], dtype=np.float32, requires_grad=True)
    assert made.requires_grad
    assert made.dtype == F32


@pytest.mark.parametrize("data", [1, [True], np.arange(3)])
def test_only_floats_can_require_a_gradient(data: Any) -> None:
    with pytest.raises(TypeError, match=r"only floating-point .* pass dtype=float"):
        Tensor(data, requires_grad=True)
    assert Tensor(data, requires_grad=True, dtype=float).requires_grad


# ----- Operators -----

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("own", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    "other",
    [3, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(3), np.full(2, 3), np.full(2, 2.5)],
    ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', '')}",
)
def test_operators_give_what_numpy_gives_on_either_side(
    op: Callable[[Any, Any], Any], own: type, other: Any
) -> None:
    array: NDArray[Any] = np.array([2, 5], own)
    for actual, expected in (
        (op(Tensor(array), other), op(array, other)),
        (op(other, Tensor(array)), op(other, array)),
    ):
        assert isinstance(actual, Tensor)
        np.testing.assert_array_equal(actual.data, expected, strict=True)


@pytest.mark.parametrize("op", OPERATORS)
def test_an_array_on_the_left_leaves_the_work_to_the_tensor(
    op: Callable[[Any, Any], Any],
) -> None:
    a = Tensor([1.0, 2.0], requires_grad=True)
    result = op(np.array([3.0, 4.0]), a)
    assert isinstance(result, Tensor)
    assert result.requires_grad
    matrix = np.eye(2) @ a
    assert isinstance(matrix, Tensor)
    assert matrix.op == "matmul"


def test_a_constant_array_is_copied_into_the_graph() -> None:
    a, factor = Tensor([1.0, 1.0], requires_grad=True), np.array([2.0, 3.0])
    product = a * factor
    factor[:] = 0
    product.backward([1.0, 1.0])
    assert a.grad is not None
    np.testing.assert_array_equal(a.grad, [2.0, 3.0])


def test_the_gradient_has_the_dtype_of_its_tensor_in_a_mixed_graph() -> None:
    single = Tensor([1.0, 2.0], requires_grad=True, dtype=F32)
    double = Tensor([3.0, 4.0], requires_grad=True)
    product = single * double
    assert product.dtype == F64
    product.sum().backward()
    assert single.grad is not None
    assert double.grad is not None
    assert (single.grad.dtype, double.grad.dtype) == (F32, F64)


@pytest.mark.parametrize("other", [[1.0], None, "1", 1j])
def test_anything_else_must_be_wrapped(other: Any) -> None:
    with pytest.raises(TypeError, match=r"not with a \w+: wrap it, tensor\(\.\.\.\)"):
        Tensor(1.0) + other


def test_the_exponent_is_a_number() -> None:
    with pytest.raises(TypeError, match=r"a number, not a Tensor: .* \(exponent \* base\.log"):
        Tensor(2.0) ** Tensor(2.0)  # type: ignore[operator]


@pytest.mark.parametrize("exponent", [2, 2.0, np.float64(2), np.float32(2)])
def test_a_power_has_the_dtype_that_numpy_gives(exponent: float) -> None:
    array = np.array([2.0, 3.0], np.float32)
    power = Tensor(array) ** exponent
    np.testing.assert_array_equal(power.data, array**exponent, strict=True)


def test_a_ufunc_does_not_detach_in_silence() -> None:
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(Tensor(1.0))


def test_an_index_can_be_a_tensor() -> None:
    a = Tensor([[1.0, 2.0], [3.0, 4.0]])
    rows = Tensor([1, 1])
    np.testing.assert_array_equal(a[rows].data, [[3, 4], [3, 4]])
    np.testing.assert_array_equal(a[rows, 0].data, [3, 3])


# ----- Out of the graph -----


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0), (2, 3, 4)])
def test_what_torch_has_too_means_the_same(shape: tuple[int, ...]) -> None:
    ours, theirs = Tensor(np.ones(shape)), torch.ones(shape)
    assert ours.shape == tuple(theirs.shape) == ours.size()
    assert ours.ndim == theirs.ndim
    assert [ours.size(i) for i in range(ours.ndim)] == [theirs.size(i) for i in range(ours.ndim)]
    if shape:
        assert len(ours) == len(theirs)
        assert [row.shape for row in ours] == [tuple(row.shape) for row in theirs]


def test_a_scalar_has_no_length_and_no_rows() -> None:
    with pytest.raises(TypeError, match="unsized"):
        len(Tensor(1.0))
    with pytest.raises(TypeError, match="unsized"):
        list(Tensor(1.0))


def test_the_truth_is_that_of_the_element_and_not_of_the_length() -> None:
    assert not Tensor([0.0])
    assert Tensor(2.0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(Tensor([1.0, 2.0]))


def test_item_is_a_python_number_and_only_of_one_element() -> None:
    assert type(Tensor([[2]]).item()) is int
    assert type(Tensor(2, dtype=F32).item()) is float
    with pytest.raises(ValueError, match="size 1"):
        Tensor([1.0, 2.0]).item()


def test_detach_shares_the_data_and_forgets_the_graph() -> None:
    a = Tensor([1.0, 2.0], requires_grad=True)
    cut = a.exp().detach()
    assert not cut.requires_grad
    assert cut.parents == ()
    assert a.detach().numpy() is a.data


def test_numpy_can_read_a_tensor() -> None:
    a = Tensor([[1.0, 2.0]], requires_grad=True)
    assert np.shares_memory(np.asarray(a), a.data)
    assert not np.shares_memory(np.array(a), a.data)
    assert np.asarray(a, np.float32).dtype == F32
    assert Tensor(a).shape == (1, 2)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor([1.0, 2.5]), "Tensor([1. , 2.5])"),
        (Tensor(3), "Tensor(3, dtype=int64)"),
        (Tensor([1.0], requires_grad=True), "Tensor([1.], requires_grad=True)"),
        (Tensor(1, True, F32) * 2, "Tensor(2., dtype=float32, op=mul)"),
        (Tensor(np.eye(2)), "Tensor([[1., 0.],\n        [0., 1.]])"),
    ],
)
def test_repr_shows_values_dtype_and_place_in_the_graph(tensor: Tensor, text: str) -> None:
    assert repr(tensor) == text
