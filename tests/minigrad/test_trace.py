"""The trace of a walk: what it records, in which order, and that nothing else changes."""

import threading

import numpy as np
import pytest

from minigrad import Tensor, grad, trace
from minigrad.tensor import apply
from minigrad.tracing import Step
from minigrad.types import Array, Cotangents, Recorded


def program() -> tuple[Tensor, Tensor]:
    a = Tensor([1.0, 2.0], requires_grad=True)
    hidden = a * Tensor([3.0, 4.0])
    return a, (hidden + a).sum()


def same(one: Step, other: Step) -> bool:
    arrays = zip(
        (one.value, one.cotangent, *one.handed),
        (other.value, other.cotangent, *other.handed),
        strict=True,
    )
    return (one.index, one.op, one.parents) == (other.index, other.op, other.parents) and all(
        np.array_equal(np.asarray(x), np.asarray(y)) for x, y in arrays
    )


def test_each_node_is_recorded_with_what_it_got_and_handed_on() -> None:
    _, output = program()
    with trace() as steps:
        output.backward()
    places = [(step.index, step.op, step.parents) for step in steps]
    assert places == [(3, "sum", (2,)), (2, "add", (1, 0)), (1, "mul", (0, None)), (0, "", ())]
    assert [step.value.tolist() for step in steps] == [14.0, [4.0, 10.0], [3.0, 8.0], [1.0, 2.0]]
    arrived = [step.cotangent.tolist() for step in steps]
    assert arrived == [1.0, [1.0, 1.0], [1.0, 1.0], [4.0, 5.0]]
    handed = [[np.asarray(array).tolist() for array in step.handed] for step in steps]
    ones = [1.0, 1.0]
    assert handed == [[ones], [ones, ones], [[3.0, 4.0], [1.0, 2.0]], []]


def test_a_constant_gets_what_its_rule_hands_on_but_is_not_walked() -> None:
    def none(a: Array, b: Array) -> Recorded:
        return a * b, lambda g: (g, None)

    with trace() as steps:
        apply(none, Tensor(1.0, requires_grad=True), Tensor(2.0)).backward()
    assert [step.parents for step in steps] == [(0, None), ()]
    assert steps[0].handed[1] is None


def test_the_first_difference_between_two_walks_is_the_faulty_rule() -> None:
    def exp(a: Array, factor: float) -> Recorded:
        value = np.exp(a)

        def vjp(g: Array) -> Cotangents:
            return (g * value * factor,)

        return value, vjp

    walks = []
    for factor in (1.0, 1.01):
        a = Tensor([1.0, 2.0], requires_grad=True)
        output = (apply(exp, a.tanh(), factor=factor) * a).sum()
        with trace() as steps:
            output.backward()
        walks.append(steps)
    assert [step.op for step in walks[0]] == ["sum", "mul", "exp", "tanh", ""]
    pairs = zip(*walks, strict=True)
    assert [same(one, other) for one, other in pairs] == [True, True, False, False, False]


def test_the_same_program_gives_the_same_trace() -> None:
    traces = []
    for _ in range(2):
        _, output = program()
        with trace() as steps:
            output.backward()
        traces.append(steps)
    assert all(same(one, other) for one, other in zip(*traces, strict=True))


def test_tracing_changes_no_gradient() -> None:
    gradients = []
    for traced in (False, True):
        a, output = program()
        if traced:
            with trace() as steps:
                output.backward()
            assert len(steps) == 4
        else:
            output.backward()
        gradients.append(np.asarray(a.grad).tolist())
    assert gradients == [[4.0, 5.0]] * 2


def test_the_arrays_are_copies() -> None:
    a = Tensor([1.0, 2.0], requires_grad=True)
    with trace() as steps:
        (a * 3.0).backward([1.0, 1.0])
    assert a.grad is not None
    a.grad[:] = a.data[:] = 9.0
    product, last = steps
    assert np.asarray(product.handed[0]).tolist() == [3.0, 3.0]
    assert last.cotangent.tolist() == [3.0, 3.0]
    assert last.value.tolist() == [1.0, 2.0]


def test_the_cotangent_is_what_the_hooks_made_of_it() -> None:
    a, output = program()
    a.register_hook(lambda g: g * 10.0)
    with trace() as steps:
        output.backward()
    assert steps[-1].cotangent.tolist() == [40.0, 50.0]


def test_a_walk_that_fails_leaves_the_steps_before() -> None:
    def failing(a: Array) -> Recorded:
        def vjp(_: Array) -> Cotangents:
            raise FloatingPointError

        return a, vjp

    output = apply(failing, Tensor(1.0, requires_grad=True)).exp()
    with trace() as steps, pytest.raises(FloatingPointError):
        output.backward()
    assert [step.op for step in steps] == ["exp"]


def test_each_walk_inside_is_recorded_and_none_outside() -> None:
    a, output = program()
    _, another = program()
    with trace() as steps:
        output.backward(retain_graph=True)
        grad(output, a, retain_graph=True)
        with trace() as inner:
            another.backward()
    output.backward()
    assert [step.index for step in steps] == [3, 2, 1, 0] * 2
    assert len(inner) == 4


def test_a_trace_is_a_matter_of_one_thread() -> None:
    _, output = program()
    with trace() as steps:
        thread = threading.Thread(target=output.backward)
        thread.start()
        thread.join()
    assert steps == []
