"""The walk back through the graph: order, accumulation, memory, and what it refuses."""

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from minigrad import GradientTape, Tensor, cat, losses, nn, optim, trace
from minigrad import grad as gradients
from minigrad.autodiff import topological_order
from minigrad.tensor import apply
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


# ----- Memory -----


def test_gradients_share_memory_with_nothing() -> None:
    a, b, c, d = leaf(2, 2), leaf(2, 2), leaf(2, 2), leaf(2, 2)
    cotangent = np.ones((2, 2))
    (a + (b + c.T) + d.reshape(2, 2)).backward(cotangent)
    arrays = [cotangent, *(x.data for x in (a, b, c, d)), *(grad(x) for x in (a, b, c, d))]
    for one, other in itertools.combinations(arrays, 2):
        assert not np.shares_memory(one, other)


@pytest.mark.parametrize("view", [as_strided, lambda x: as_strided(x)[::-1]])
def test_the_gradient_is_a_copy_where_a_rule_hands_on_memory_of_unknown_owner(view: Any) -> None:
    memory = np.ones(3)

    def op(a: Array) -> Recorded:
        return a * 1.0, lambda _: (view(memory),)

    a = leaf(3)
    apply(op, a).sum().backward()
    assert not np.shares_memory(grad(a), memory)
    np.testing.assert_array_equal(grad(a), np.ones(3))


def test_a_gradient_keeps_no_larger_array_alive() -> None:
    a, b = leaf(1), leaf(1000)
    cat([a, b]).backward(np.ones(1001))
    for gradient in (grad(a), grad(b)):
        assert gradient.base is None


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_a_gradient_can_be_written_to(name: str) -> None:
    a = leaf(2, 3)
    getattr(a, name)().backward()
    grad(a)[0, 0] = 5.0
    assert (grad(a) == 5.0).sum() == 1


def test_the_gradient_of_a_lone_leaf_is_not_the_callers_cotangent() -> None:
    a, cotangent = leaf(2), np.ones(2)
    a.backward(cotangent)
    assert not np.shares_memory(grad(a), cotangent)


def test_backward_does_not_write_into_the_gradient_that_is_there() -> None:
    a = leaf(2)
    a.sum().backward()
    before = grad(a)
    a.sum().backward()
    np.testing.assert_array_equal(before, [1.0, 1.0])


@pytest.mark.parametrize("walked", [True, False])
def test_a_graph_goes_away_without_the_garbage_collector(walked: bool) -> None:
    model = nn.Linear(3, 2, rng=np.random.default_rng(0))
    gc.disable()
    try:
        loss = (model(Tensor(np.ones((4, 3)))).tanh()[1:] ** 2).max(0).mean()
        nodes = [weakref.ref(x) for x in topological_order(loss) if not x.is_leaf]
        if walked:
            loss.backward()
        del loss
        assert len(nodes) > 5
        assert [node() for node in nodes] == [None] * len(nodes)
    finally:
        gc.enable()


def test_a_thousand_steps_leave_nothing_to_the_garbage_collector() -> None:
    model = nn.Linear(3, 2, rng=np.random.default_rng(0))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, target = Tensor(np.ones((4, 3))), Tensor(np.zeros((4, 2)))

    def step() -> None:
        optimizer.zero_grad()
        with GradientTape() as tape, trace() as steps:
            tape.watch(x)
            hidden = model(x).tanh()
            hidden.retain_grad()
            handle = hidden.register_hook(lambda g: g * 2.0)
            loss = losses.mse(hidden, target)
            loss.backward(retain_graph=True)
            gradients(loss, hidden, retain_graph=True)
            tape.gradient(loss, x)
        assert len(steps) > 5
        handle.remove()
        optimizer.step()

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(1_000):
            step()
        assert len(gc.get_objects()) - before < 100
    finally:
        gc.enable()


def test_a_walked_graph_keeps_no_arrays() -> None:
    hidden = leaf(3).exp()
    saved = weakref.ref(hidden.data)
    output = hidden.sum()
    del hidden
    output.backward()
    assert saved() is None


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
