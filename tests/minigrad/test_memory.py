"""What the walk leaves in memory: gradients of their own, and no graph."""

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from minigrad import GradientTape, Tensor, cat, losses, nn, optim, trace
from minigrad import grad as gradients
from minigrad.tensor import apply, topological_order
from minigrad.types import Array, Recorded


def leaf(*shape: int) -> Tensor:
    return Tensor(np.ones(shape), requires_grad=True)


def grad(tensor: Tensor) -> Array:
    assert tensor.grad is not None
    return tensor.grad


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
