"""The walk back through the graph: order, accumulation, and what it refuses."""

import numpy as np
import pytest

from minigrad import Tensor
from minigrad.tensor import apply, topological_order
from minigrad.types import Array, Cotangents, Recorded


def leaf(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True)


def grad(tensor: Tensor) -> Array:
    assert tensor.grad is not None
    return tensor.grad


# ----- Order -----


def test_parents_come_before_children_in_the_order_of_the_operands() -> None:
    a, b, c = leaf(), leaf(), leaf()
    product = a * b
    total = product + (c - product)
    assert topological_order(total) == [a, b, product, c, total.parents[1], total]


def test_a_node_that_needs_no_gradient_is_not_visited() -> None:
    a, constant = leaf(), Tensor(2.0)
    product = a * constant.exp()
    assert topological_order(product) == [a, product]


def test_a_rule_is_called_once_with_an_array_though_paths_differ_in_length() -> None:
    calls = []

    def spy(a: Array) -> Recorded:
        def vjp(g: Array) -> Cotangents:
            calls.append(g)
            return (g,)

        return a, vjp

    h = apply(spy, leaf())
    (h + (h.exp() + h).tanh()).backward()
    assert [type(g) for g in calls] == [np.ndarray]  # 0-d sums are NumPy scalars elsewhere


def test_a_graph_of_100_000_nodes_neither_recurses_nor_breaks_on_the_way_out() -> None:
    start = end = leaf()
    for _ in range(100_000):
        end = -end
    end.backward()
    assert grad(start) == 1

    end = start * 2.0
    for _ in range(50_000):
        end = (end + end) * 0.5
        end.register_hook(lambda _: None)
    end.backward(retain_graph=True)
    assert grad(start) == 3
    del end  # its nodes go one by one, not in a recursion


# ----- Accumulation -----


def test_backward_adds_to_the_gradient_that_is_there() -> None:
    a = leaf(2)
    for expected in ([3.0, 3.0], [6.0, 6.0]):
        (a * 3.0).backward([1.0, 1.0])
        np.testing.assert_array_equal(grad(a), expected)


def test_a_gradient_is_an_array_also_the_second_time() -> None:
    a = leaf()
    for expected in (2.0, 4.0):
        (a * 2.0).backward()
        assert type(a.grad) is np.ndarray
        assert a.grad == expected


def test_only_leaves_get_a_gradient() -> None:
    a, constant = leaf(), Tensor(2.0)
    product = a * constant
    (product * product).backward()
    assert product.grad is None
    assert constant.grad is None
    assert grad(a) == 8


def test_a_leaf_can_be_its_own_output() -> None:
    a = leaf(2)
    a.backward([1.0, 2.0])
    np.testing.assert_array_equal(grad(a), [1.0, 2.0])


def test_one_element_needs_no_cotangent_whatever_its_shape() -> None:
    a = leaf(1, 1)
    (a * 2.0).backward()
    np.testing.assert_array_equal(grad(a), [[2.0]], strict=True)


def test_a_rule_may_leave_a_parent_without_a_cotangent() -> None:
    def first(a: Array, b: Array) -> Recorded:
        return a + b, lambda g: (g, None)

    a, b = leaf(), leaf()
    apply(first, a, b.exp()).backward()
    assert grad(a) == 1
    assert b.grad is None


def test_a_rule_that_forgets_a_parent_is_an_error() -> None:
    def forgetful(a: Array, b: Array) -> Recorded:
        return a + b, lambda g: (g,)

    with pytest.raises(ValueError, match="shorter"):
        apply(forgetful, leaf(), leaf()).backward()


# ----- What it refuses -----


def test_a_second_backward_through_the_same_graph_says_what_to_do() -> None:
    a = leaf()
    shared = a.exp()
    one, other = shared * 2.0, shared * 3.0
    one.backward()
    before = grad(a).copy()
    for output in (one, other):
        with pytest.raises(RuntimeError, match=r"has freed: compute the output again"):
            output.backward()
    np.testing.assert_array_equal(grad(a), before)


def test_a_failed_backward_leaves_no_gradient() -> None:
    def failing(a: Array) -> Recorded:
        def vjp(_: Array) -> Cotangents:
            raise FloatingPointError("no gradient here")

        return a, vjp

    a, b = leaf(), leaf()
    with pytest.raises(FloatingPointError, match="no gradient here"):
        (apply(failing, a) + b + a).backward()
    assert a.grad is None
    assert b.grad is None


def test_a_tensor_without_a_gradient_has_no_backward() -> None:
    with pytest.raises(RuntimeError, match=r"does not require a gradient: create a leaf with req"):
        Tensor(1.0).exp().backward()


def test_more_than_one_element_needs_a_cotangent() -> None:
    with pytest.raises(RuntimeError, match=r"shape \(2, 3\) needs a cotangent.*sum\(\) or mean"):
        leaf(2, 3).exp().backward()


def test_a_cotangent_has_the_shape_of_its_tensor() -> None:
    message = r"^the cotangent has shape \(3,\), but the tensor has shape \(2, 3\)$"
    with pytest.raises(ValueError, match=message):
        leaf(2, 3).exp().backward(np.ones(3))


def test_a_cotangent_must_fit_into_the_tensors_dtype() -> None:
    with pytest.raises(TypeError, match=r"complex128 cannot become float64, the tensor's dtype"):
        leaf(2).exp().backward(np.ones(2, complex))


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.bool_])
def test_a_cotangent_is_cast_to_the_tensors_dtype(dtype: type) -> None:
    a = Tensor([1.0, 2.0], requires_grad=True, dtype=np.float32)
    (a * 2.0).backward(np.ones(2, dtype))
    np.testing.assert_array_equal(grad(a), np.full(2, 2, np.float32), strict=True)
