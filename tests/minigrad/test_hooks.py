"""Hooks and retained gradients inside the graph: what PyTorch does with the same program."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, no_grad
from minigrad.types import Array
from tests.minigrad.against_torch import compare
from tests.minigrad.both import Leaves, copied, in_both

# ----- retain_grad() -----


def test_a_result_that_retains_its_gradient_gets_one() -> None:
    def program(leaves: Leaves) -> list[Any]:
        a, b = leaves
        product = a * b
        other = product + a
        product.retain_grad()
        output = (product * other).sum()
        output.retain_grad()
        output.backward(retain_graph=True)
        output.backward()
        return [product.grad, output.grad, a.grad, b.grad]

    in_both(program, (2, 3), (3,))


def test_retain_grad_changes_nothing_for_a_leaf() -> None:
    def program(leaves: Leaves) -> list[Any]:
        (a,) = leaves
        a.retain_grad()
        assert not a.retains_grad
        (a * a).sum().backward()
        return [a.grad]

    in_both(program, (2,))


def test_retained_gradients_share_memory_with_nothing() -> None:
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    total = a + b
    column = total.reshape(2, 1)
    total.retain_grad()
    column.retain_grad()
    column.sum().backward()
    gradients = [np.asarray(x.grad) for x in (a, b, total, column)]
    for one, other in itertools.combinations(gradients, 2):
        assert not np.shares_memory(one, other)


# ----- Hooks -----

HOOKS: dict[str, Callable[[Any], Any]] = {
    "looks": lambda _: None,
    "doubles": lambda g: g * 2.0,
    "drops": lambda g: g * 0.0,
}


@pytest.mark.parametrize("on", ["leaf", "result", "output"])
@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_sees_and_replaces_what_torchs_sees_and_replaces(name: str, on: str) -> None:
    def program(leaves: Leaves) -> list[Any]:
        a, b = leaves
        hidden = (a * b).exp()
        output = (hidden * a + hidden).sum()
        observed = []

        def hook(g: Any) -> Any:
            observed.append(copied(g))
            return HOOKS[name](g)

        hidden.retain_grad()
        {"leaf": a, "result": hidden, "output": output}[on].register_hook(hook)
        output.backward(retain_graph=True)
        output.backward()
        return [*observed, hidden.grad, a.grad, b.grad]

    in_both(program, (2, 3), (3,))


def test_hooks_run_in_their_order_until_they_are_removed() -> None:
    def program(leaves: Leaves) -> list[Any]:
        (a,) = leaves
        handles = [a.register_hook(lambda g: g + 1.0), a.register_hook(lambda g: g * 10.0)]
        gradients = []
        for handle in (*handles, None):
            a.grad = None
            (a * 3.0).sum().backward()
            gradients.append(copied(a.grad))
            if handle is not None:
                handle.remove()
                handle.remove()
        return gradients

    in_both(program, (2,))


def test_a_removed_hook_does_not_lend_its_place_to_the_next() -> None:
    a = Tensor(1.0, requires_grad=True)
    first, second = (a.register_hook(lambda g: g * 2.0) for _ in range(2))
    second.remove()
    a.register_hook(lambda g: g * 5.0)
    second.remove()
    first.remove()
    (a * 1.0).backward()
    assert a.grad == 5


def test_writing_into_the_cotangent_of_a_hook_changes_nothing() -> None:
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))

    def write(g: Array) -> None:
        g[:] = 7.0

    total = a + b
    total.register_hook(write)
    a.register_hook(write)
    total.sum().backward()
    np.testing.assert_array_equal(np.asarray([a.grad, b.grad]), np.ones((2, 2)))


def test_a_replacement_may_be_a_number_and_gets_the_dtype_of_its_tensor() -> None:
    a = Tensor(1.0, requires_grad=True, dtype=np.float32)
    observed: list[Array] = []
    a.register_hook(lambda _: 3)
    a.register_hook(observed.append)
    a.exp().backward()
    compare("cotangent", observed[0], np.array(3.0, np.float32))


def test_a_replacement_of_another_shape_is_refused_and_no_gradient_changes() -> None:
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    a.register_hook(lambda g: g.sum())
    with pytest.raises(ValueError, match=r"returned an array of shape \(\) .* of shape \(2,\)"):
        (b + a).sum().backward()
    assert a.grad is None
    assert b.grad is None


def test_a_hook_that_fails_leaves_no_gradient() -> None:
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))

    def fail(_: Array) -> None:
        raise ZeroDivisionError("in the hook")

    a.register_hook(fail)
    hidden = a + b
    hidden.retain_grad()
    with pytest.raises(ZeroDivisionError, match="in the hook"):
        hidden.sum().backward()
    assert [a.grad, b.grad, hidden.grad] == [None] * 3


@pytest.mark.parametrize("method", ["retain_grad", "register_hook"])
def test_where_no_gradient_passes_there_is_nothing_to_retain_or_hook(method: str) -> None:
    a = Tensor(1.0, requires_grad=True)
    with no_grad():
        result = a * 2.0
    arguments = [lambda _: None] if method == "register_hook" else []
    with pytest.raises(RuntimeError, match=rf"{method}\(\) on .* no cotangent will pass here"):
        getattr(result, method)(*arguments)
