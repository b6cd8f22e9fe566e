"""Changes in place: what they do, where they are refused, and what a backward makes of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from minigrad import Tensor, no_grad, optim
from tests.minigrad.against_torch import compare

CHANGES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(2.0),
    "mul_": lambda x: x.mul_(2.0),
    "copy_": lambda x: x.copy_(x * 3.0),
    "setitem": lambda x: x.__setitem__(1, 5.0),
}


def constant(*values: float) -> Tensor:
    return Tensor(list(values))


def leaf(*values: float) -> Tensor:
    return Tensor(list(values), requires_grad=True)


# ----- What they do -----


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_place_is_torchs(name: str, dtype: type[Any]) -> None:
    values = np.array([1, 2, 4], dtype)
    ours, theirs = Tensor(values), torch.tensor(values)
    array = ours.data
    if dtype is np.int64 and name != "setitem":
        change: Callable[[Any], Any] = lambda x: getattr(x, name)(3)  # noqa: E731
    else:
        change = CHANGES[name]
    assert change(ours) is (None if name == "setitem" else ours)
    change(theirs)
    compare(name, ours.data, theirs.numpy())
    assert ours.data is array


def test_operands_are_tensors_arrays_or_numbers_and_broadcast() -> None:
    x = Tensor(np.ones((2, 3)))
    x.add_(Tensor([1.0, 2.0, 3.0])).mul_(np.array([[1.0], [10.0]]))
    np.testing.assert_array_equal(x.data, [[2, 3, 4], [20, 30, 40]])
    x[Tensor([1]), :2] = Tensor(0.0)
    np.testing.assert_array_equal(x.data, [[2, 3, 4], [0, 0, 40]])
    x[x > 3] = -1.0
    np.testing.assert_array_equal(x.data, [[2, 3, -1], [0, 0, -1]])


def test_an_integer_tensor_does_not_round_in_silence() -> None:
    with pytest.raises(TypeError, match="same_kind"):
        Tensor([1, 2]).add_(0.5)


def test_a_view_is_changed_with_its_tensor() -> None:
    x = constant(1.0, 2.0, 3.0)
    x[1:].mul_(10.0)
    np.testing.assert_array_equal(x.data, [1, 20, 30])


# ----- Where they are refused -----


@pytest.mark.parametrize("name", CHANGES)
def test_a_tensor_that_requires_a_gradient_is_changed_only_inside_no_grad(name: str) -> None:
    a = leaf(1.0, 2.0)
    for tensor in (a, a.exp()):
        before = tensor.data.copy()
        with pytest.raises(RuntimeError, match=r"would not be recorded: .* inside no_grad\(\)"):
            CHANGES[name](tensor)
        np.testing.assert_array_equal(tensor.data, before)
        with no_grad():
            CHANGES[name](tensor)
        assert not np.array_equal(tensor.data, before)


# ----- What a backward makes of them -----


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("which", ["constant", "leaf", "result"])
def test_a_change_of_what_backward_needs_is_an_error(which: str, name: str) -> None:
    a, x = leaf(1.0, 2.0), constant(3.0, 4.0)
    hidden = a.exp()
    output = (hidden * x * a).sum()
    with no_grad():
        CHANGES[name]({"constant": x, "leaf": a, "result": hidden}[which])
    message = r"(an operand|the result) of \w+, of shape \(2,\), was changed .* change a copy"
    with pytest.raises(RuntimeError, match=message):
        output.backward()
    assert a.grad is None


def test_the_message_names_the_op() -> None:
    a, x = leaf(1.0), constant(3.0)
    output = (a * x).exp()
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="an operand of mul, of shape"):
        output.backward()


def test_the_result_of_an_op_may_be_what_its_rule_needs() -> None:
    a = leaf(1.0)
    output = a.exp()
    with no_grad():
        output.mul_(2.0)
    with pytest.raises(RuntimeError, match="the result of exp, of shape"):
        output.backward([1.0])


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.reshape(2, 1),
    "transpose": lambda x: x.reshape(1, 2).T,
    "slice": lambda x: x[:2].reshape(2, 1),
    "detach": lambda x: x.detach().reshape(2, 1),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("change_the_view", [False, True])
def test_a_change_is_seen_through_views(name: str, change_the_view: bool) -> None:
    a, x = leaf(1.0), constant(3.0, 4.0)
    view = VIEWS[name](x)
    used, changed = (x, view) if change_the_view else (view, x)
    output = (a * used).sum()
    changed.mul_(2.0)
    with pytest.raises(RuntimeError, match="an operand of mul"):
        output.backward()


def test_a_change_before_the_op_or_after_backward_or_of_another_tensor_does_no_harm() -> None:
    a, x, other = leaf(1.0), constant(3.0), constant(5.0)
    x.mul_(2.0)
    output = (a * x).sum()
    other.mul_(2.0)
    x.exp().mul_(2.0)  # a result of its own
    output.backward()
    x.mul_(2.0)
    (a * x).sum().backward()
    assert a.grad == 6 + 12


def test_a_leaf_changed_in_place_can_be_its_own_output() -> None:
    a = leaf(2.0)
    with no_grad():
        a.mul_(3.0)
    a.backward()
    assert a.grad == 1


def test_a_retained_graph_is_guarded_as_well() -> None:
    a, x = leaf(1.0), constant(3.0)
    output = a * x
    output.backward(retain_graph=True)
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        output.backward()
    assert a.grad == 3


def test_a_new_array_for_data_does_no_harm_to_a_pending_backward() -> None:
    a, b = leaf(2.0), leaf(5.0)
    output = a * b
    output.backward(retain_graph=True)
    optim.SGD([a, b], lr=0.1).step()
    np.testing.assert_array_equal([a.data, b.data], [[1.5], [4.8]])
    a.grad = b.grad = None
    output.backward()
    np.testing.assert_array_equal(np.asarray([a.grad, b.grad]), [[5.0], [2.0]])


@pytest.mark.parametrize("name", ["add_", "mul_", "copy_"])
def test_torch_refuses_the_same_backward(name: str) -> None:
    def program(a: Any, x: Any) -> Any:
        output = (a * x).sum()
        CHANGES[name](x)
        return output

    ours = program(leaf(1.0, 2.0), constant(3.0, 4.0))
    theirs = program(torch.ones(2, requires_grad=True), torch.tensor([3.0, 4.0]))
    for output, message in ((ours, "changed in place"), (theirs, "modified by an inplace")):
        with pytest.raises(RuntimeError, match=message):
            output.backward()


def test_what_is_written_into_data_by_hand_is_not_seen_as_in_torch() -> None:
    ours, theirs = leaf(1.0, 2.0), torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    outputs = (ours * ours).sum(), (theirs * theirs).sum()
    ours.data[0] = theirs.data[0] = 10.0
    for output in outputs:
        output.backward()
    assert ours.grad is not None
    assert ours.grad.tolist() == theirs.grad.tolist() == [20.0, 4.0]  # it was 2 at [1, 2]
