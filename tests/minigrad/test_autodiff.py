"""`retain_graph` and `grad`: what PyTorch does with the same program."""

from typing import Any

import numpy as np
import pytest
import torch

import minigrad
from minigrad import Tensor
from tests.minigrad.against_torch import draw
from tests.minigrad.both import Leaves, in_both
from tests.minigrad.computing import COMPUTING
from tests.minigrad.moving import MOVING

CASES = COMPUTING | MOVING


# ----- A graph that is kept -----


def test_a_retained_graph_adds_the_same_gradients_again() -> None:
    def twice(leaves: Leaves) -> list[Any]:
        a, b = leaves
        output = ((a * b).exp() * a).sum()
        output.backward(retain_graph=True)
        output.backward()
        return [a.grad, b.grad]

    in_both(twice, (2, 3), (3,))


def test_two_outputs_can_share_a_retained_graph() -> None:
    def shared(leaves: Leaves) -> list[Any]:
        (a,) = leaves
        hidden = a.exp()
        (hidden * 2.0).sum().backward(retain_graph=True)
        (hidden * hidden).sum().backward()
        return [a.grad]

    in_both(shared, (3,))


def test_retaining_does_not_last() -> None:
    a = Tensor(1.0, requires_grad=True)
    output = a.exp()
    output.backward(retain_graph=True)
    output.backward()
    with pytest.raises(RuntimeError, match=r"has freed: .* or pass retain_graph=True"):
        output.backward()
    assert a.grad == 2 * np.exp(1.0)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_keeps_no_array_that_it_hands_on(name: str) -> None:
    program, *inputs = CASES[name]
    leaves = [Tensor(array, requires_grad=True, dtype=float) for array in draw(*inputs)]
    with np.errstate(all="ignore"):
        output = program(*leaves)
        before = [output.data.copy(), *(leaf.data.copy() for leaf in leaves)]
        cotangent = np.random.default_rng(0).standard_normal(output.shape)
        first = minigrad.grad(output, leaves, cotangent, retain_graph=True)
        expected = [np.array(gradient) for gradient in first]
        for gradient in first:
            assert gradient is not None
            gradient[...] = 1e9
        second = minigrad.grad(output, leaves, cotangent)
    for actual, wanted in zip(second, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), wanted)
    for tensor, data in zip([output, *leaves], before, strict=True):
        np.testing.assert_array_equal(tensor.data, data)


# ----- grad() -----


def grad(output: Any, inputs: Any, **options: Any) -> list[Any]:
    if isinstance(output, Tensor):
        return list(minigrad.grad(output, inputs, **options))
    if "cotangent" in options:
        options["grad_outputs"] = torch.from_numpy(options.pop("cotangent"))
    return list(torch.autograd.grad(output, inputs, allow_unused=True, **options))


def test_grad_returns_what_backward_would_add() -> None:
    def program(leaves: Leaves) -> list[Any]:
        a, b = leaves
        return [*grad(((a * b).tanh() + a).sum(), [b, a]), a.grad, b.grad]

    in_both(program, (2, 3), (3,))


def test_grad_takes_inputs_inside_the_graph_and_the_output_itself() -> None:
    def program(leaves: Leaves) -> list[Any]:
        (a,) = leaves
        hidden = a.exp()
        output = (hidden * hidden + hidden).sum()
        return grad(output, [hidden, a, output])

    in_both(program, (2,))


def test_grad_is_none_where_the_output_does_not_depend() -> None:
    def program(leaves: Leaves) -> list[Any]:
        a, b = leaves
        return grad(a.exp().sum(), [a, b, (a * b)])

    in_both(program, (2,), (2,))


def test_grad_takes_a_cotangent_and_can_keep_the_graph() -> None:
    def program(leaves: Leaves) -> list[Any]:
        (a,) = leaves
        output = a * a
        one = grad(output, [a], cotangent=np.array([1.0, 2.0]), retain_graph=True)
        return [*one, *grad(output.sum(), [a])]

    in_both(program, (2,))


def test_grad_of_one_input_is_a_tuple_of_one() -> None:
    a = Tensor(3.0, requires_grad=True)
    gradients = minigrad.grad(a * a, a)
    assert isinstance(gradients, tuple)
    assert [float(np.asarray(g)) for g in gradients] == [6.0]


def test_grad_leaves_no_trace_in_tensors_that_retain_theirs() -> None:
    a = Tensor(3.0, requires_grad=True)
    hidden = a * a
    hidden.retain_grad()
    minigrad.grad(hidden * 2.0, a)
    assert hidden.grad is None
    assert a.grad is None


def test_grad_frees_the_graph() -> None:
    a = Tensor(3.0, requires_grad=True)
    output = a * a
    minigrad.grad(output, a)
    with pytest.raises(RuntimeError, match="has freed"):
        minigrad.grad(output, a)
