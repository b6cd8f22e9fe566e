"""Where a formula alone does not decide: kinks, tails, infinities, half precision."""

import math

import numpy as np
import pytest
import torch

from minigrad import Tensor, einsum, gelu, where
from tests.minigrad.against_torch import Program

# ----- Kinks: what is a convention -----

KINKS: dict[str, tuple[Program, list[float], list[float]]] = {
    "relu": (lambda a: a.relu(), [0.0], [0.0]),
    "abs": (lambda a: a.abs(), [0.0, -0.0], [0.0, 0.0]),
    "sqrt": (lambda a: a.sqrt(), [0.0], [math.inf]),
    "pow 0": (lambda a: a**0, [0.0], [0.0]),
    "clamp": (lambda a: a.clamp(-1, 1), [-1.0, 1.0], [1.0, 1.0]),
    "norm": (lambda a: a.norm(), [0.0, 0.0], [0.0, 0.0]),
    "max": (lambda a: a.max(), [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    "min": (lambda a: a.min(), [2.0, 1.0, 1.0], [0.0, 0.5, 0.5]),
    "maximum": (lambda a: a[:1].maximum(a[1:]), [2.0, 2.0], [0.5, 0.5]),
    "minimum": (lambda a: a[:1].minimum(a[1:]), [2.0, 2.0], [0.5, 0.5]),
}


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_convention_at_a_kink_is_that_of_torch(name: str) -> None:
    program, point, slopes = KINKS[name]
    ours = Tensor(point, requires_grad=True)
    theirs = torch.tensor(point, dtype=torch.float64, requires_grad=True)
    program(ours).sum().backward()
    program(theirs).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert ours.grad.tolist() == theirs.grad.tolist() == slopes


# ----- Numerics -----


def test_the_tails_of_a_sigmoid_keep_their_digits() -> None:
    tail = Tensor([-40.0, -700.0]).sigmoid()
    np.testing.assert_allclose(tail.data, [math.exp(-40), math.exp(-700)], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_quotient_has_a_gradient_where_the_square_of_the_denominator_overflows_or_is_zero(
    dtype: type[np.floating],
) -> None:
    for extreme in (np.finfo(dtype).max, np.finfo(dtype).smallest_normal):
        value = dtype(float(extreme) ** 0.75)
        a, b = (Tensor([value], requires_grad=True, dtype=dtype) for _ in range(2))
        (a / b).sum().backward()
        assert b.grad is not None
        np.testing.assert_allclose(b.grad, -1 / value, rtol=1e-2)


def test_the_tail_of_gelu_keeps_its_digits() -> None:
    expected = -9 * math.erfc(9 / math.sqrt(2)) / 2
    np.testing.assert_allclose(gelu(Tensor(-9.0)).data, expected, rtol=1e-15)


def test_gelu_with_tanh_is_close_to_gelu() -> None:
    a = Tensor(np.linspace(-8, 8, 1001))
    difference = np.abs(gelu(a).data - gelu(a, approximate="tanh").data).max()
    assert 1e-4 < difference < 5e-4


def test_logsumexp_of_nothing_but_zeros_in_probability_is_zero_in_probability() -> None:
    with np.errstate(all="raise"):
        assert Tensor([-np.inf, -np.inf]).logsumexp(0).item() == -np.inf
        assert Tensor([1e300, -np.inf]).logsumexp(0).item() == 1e300


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_variance_is_never_negative() -> None:
    assert Tensor([1.0, 2.0]).var(correction=3).item() == math.inf


HALVES: list[Program] = [
    *(lambda a, name=name: getattr(a, name)() for name in ("exp", "sqrt", "tanh", "sigmoid")),
    *(lambda a, name=name: getattr(a, name)() for name in ("relu", "abs", "norm", "var", "max")),
    *(lambda a, name=name: getattr(a, name)(1) for name in ("softmax", "log_softmax", "logsumexp")),
    gelu,
    lambda a: gelu(a, approximate="tanh"),
    lambda a: 2 * a / 3 - a**2,
    lambda a: a @ a.T,
    lambda a: a.maximum(0.5).minimum(a * 3).clamp(0.2, 0.8),
    lambda a: where(a > 0.5, a, 0.0)[[0, 0]],
    lambda a: einsum("ij,kj->ik", a, a),
]


@pytest.mark.parametrize("program", HALVES)
def test_half_precision_stays_half_precision(program: Program) -> None:
    a = Tensor([[0.25, 0.5, 1.0], [0.5, 0.75, 2.0]], requires_grad=True, dtype=np.float16)
    output = program(a)
    assert output.dtype == np.float16
    output.sum().backward()
    assert a.grad is not None
    assert a.grad.dtype == np.float16
