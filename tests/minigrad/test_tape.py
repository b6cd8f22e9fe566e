"""`GradientTape`, against what TensorFlow's guide and reference document for the same programs.

TensorFlow is not installed for the tests; its results stand here as constants.
"""

from typing import Any

import numpy as np
import pytest

from minigrad import GradientTape, Tensor


def values(gradient: Any) -> Any:
    assert isinstance(gradient, np.ndarray)
    return gradient.tolist()


# ----- Documented by TensorFlow -----


def test_the_square_of_a_watched_constant() -> None:
    x = Tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert values(tape.gradient(y, x)) == 6.0


def test_a_persistent_tape_answers_for_results_too() -> None:
    x = Tensor([1.0, 3.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert values(tape.gradient(z, x)) == [4.0, 108.0]
    assert values(tape.gradient(y, x)) == [2.0, 6.0]
    assert values(tape.gradient(z, y)) == [2.0, 18.0]


def test_a_variable_is_watched_from_the_start() -> None:
    x = Tensor(2.0, requires_grad=True)
    with GradientTape() as tape:
        y = x * np.array([3.0, 4.0])
    assert values(tape.gradient(y, x)) == 7.0  # the sum: one number for two elements


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 2, 3)])
def test_a_target_of_any_rank_is_summed(shape: tuple[int, ...]) -> None:
    x = Tensor(2.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * np.ones(shape)
    assert values(tape.gradient(y, x)) == float(np.prod(shape))


def test_a_sum_of_the_weights_as_the_target_is_the_ordinary_case() -> None:
    x = Tensor(3.0)
    w = Tensor(np.ones((2, 2)), requires_grad=True)
    with GradientTape() as tape:
        y = x * w.sum()
    assert values(tape.gradient(y, w)) == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("persistent", [False, True])
def test_nested_tapes_watch_on_their_own_and_share_the_graph(persistent: bool) -> None:
    x, w = Tensor(2.0), Tensor(5.0)
    with GradientTape() as outer:
        outer.watch(w)
        with GradientTape(persistent) as inner:
            inner.watch(x)
            y = x * x * w
        z = y * 3.0
    assert inner.gradient(y, [x, w]) == [20.0, None]
    if persistent:
        assert outer.gradient(z, [x, w]) == [None, 12.0]
    else:  # TensorFlow's tapes have each their own record
        with pytest.raises(RuntimeError, match="has freed"):
            outer.gradient(z, w)


# ----- Sources -----


def test_the_answer_has_the_structure_of_the_sources() -> None:
    a, b, unused = (Tensor(value, requires_grad=True) for value in (2.0, 3.0, 4.0))
    with GradientTape() as tape:
        y = a * b
    answer = tape.gradient(y, {"ab": [a, (b, unused)], "a": a})
    assert answer == {"ab": [3.0, (2.0, None)], "a": 3.0}
    assert list(answer) == ["ab", "a"]
    assert isinstance(answer["ab"][1], tuple)


def test_what_was_not_watched_has_no_gradient() -> None:
    x, y = Tensor(2.0), Tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        z = x * y
    assert tape.gradient(z, [x, y]) == [3.0, None]


def test_a_target_that_depends_on_nothing_watched_gives_none() -> None:
    x = Tensor(2.0)
    with GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, {"x": x}) == {"x": None}


def test_a_source_can_be_the_target() -> None:
    x = Tensor([2.0, 3.0])
    with GradientTape() as tape:
        tape.watch(x)
    assert values(tape.gradient(x, x)) == [1.0, 1.0]


def test_anything_else_as_a_source_is_refused() -> None:
    x = Tensor(2.0, requires_grad=True)
    with GradientTape() as tape:
        y = x * x
    with pytest.raises(TypeError, match=r"sources are tensors, .* not a ndarray"):
        tape.gradient(y, [x, np.ones(2)])
    assert values(tape.gradient(y, x)) == 4.0


# ----- The life of a tape -----


def test_a_tape_answers_once() -> None:
    x = Tensor(3.0, requires_grad=True)
    with GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match=r"this tape has answered.*persistent=True"):
        tape.gradient(y, x)


def test_watching_ends_with_the_tape_also_after_an_exception() -> None:
    x = Tensor(3.0)

    def fail() -> None:
        with GradientTape() as tape:
            tape.watch(x)
            assert (x * 2.0).requires_grad
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not x.requires_grad
    assert not (x * 2.0).requires_grad


def test_no_grad_attribute_changes() -> None:
    x, w = Tensor(3.0), Tensor(2.0, requires_grad=True)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * w
    assert tape.gradient(y, [x, w]) == [2.0, 3.0]
    assert x.grad is None
    assert w.grad is None
    assert not x.requires_grad
    assert w.requires_grad


def test_a_tape_can_be_asked_inside() -> None:
    x = Tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        gradient = tape.gradient(x * x, x)
    assert values(gradient) == 6.0


def test_watching_begins_with_watch() -> None:
    x = Tensor(3.0)
    with GradientTape() as tape:
        before = x * x
        tape.watch(x)
        y = before + x
    assert values(tape.gradient(y, x)) == 1.0


def test_output_gradients_weight_the_elements() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with GradientTape() as tape:
        y = x * x
    assert values(tape.gradient(y, x, output_gradients=[1.0, 10.0])) == [2.0, 40.0]


def test_output_gradients_have_the_shape_of_the_target() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="the cotangent has shape"):
        tape.gradient(y, x, output_gradients=1.0)
    assert values(tape.gradient(y, x)) == [2.0, 4.0]


def test_integers_cannot_be_watched() -> None:
    with GradientTape() as tape, pytest.raises(TypeError, match=r"floating-point .*int64"):
        tape.watch(Tensor(3))
