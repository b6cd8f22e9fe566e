"""Losses against PyTorch, and two of them against HIPS autograd as a second opinion."""

from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
import torch
from torch.nn import functional

from minigrad import Tensor, losses
from tests.minigrad.against_torch import Program, assert_same_as_torch
from tests.minigrad.modules import DTYPES, assert_same_descent, normal, public_names

X, Y = normal(5, 3, seed=1), normal(5, 3, seed=2)
SHARES = 1 / (1 + np.exp(-Y))
CLASSES = np.array([2, 0, 2, 1, 1])
PADDED = np.array([2, -100, 2, -100, 1])
PAD_IS_1 = np.array([2, 1, 0, 1, 0])
FAR = np.array([[-800.0, 800.0, 0.0], [30.0, -30.0, -0.0]])
KINKS = np.array([0.0, 1.0, -1.0, 0.5, 3.0])
LOG_P, LOG_Q = (a - np.log(np.exp(a).sum(1, keepdims=True)) for a in (X, Y))

Case = tuple[str, Callable[..., Any], np.ndarray[Any, Any]]


def real(name: str, twin: str, prediction: Any, target: Any, *options: Any) -> Case:
    """A loss that takes targets of the shape of the predictions."""
    fixed = getattr(losses, name), getattr(functional, twin)

    def program(x: Any, reduction: str = "mean") -> Any:
        if isinstance(x, Tensor):
            return fixed[0](x, target.astype(x.dtype), *options, reduction=reduction)
        delta = {"delta": options[0]} if options else {}
        return fixed[1](x, torch.from_numpy(target).to(x.dtype), reduction=reduction, **delta)

    return name, program, prediction


def classes(logits: Any, targets: Any, ignore_index: int = -100, smoothing: float = 0.0) -> Case:
    def program(x: Any, reduction: str = "mean") -> Any:
        options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
        options["label_smoothing"] = smoothing
        if isinstance(x, Tensor):
            return losses.cross_entropy(x, targets, **options)
        return functional.cross_entropy(x, torch.from_numpy(targets), **options)

    return "cross_entropy", program, logits


def divergence(x: Any, reduction: str = "mean") -> Any:
    if isinstance(x, Tensor):
        return losses.kl_div(x, Tensor(LOG_Q, dtype=x.dtype), reduction)  # type: ignore[arg-type]
    target = torch.from_numpy(LOG_Q).to(x.dtype)
    each = functional.kl_div(x, target, reduction="none", log_target=True)
    return getattr(each, reduction)()


BCE = "binary_cross_entropy_with_logits"

CASES: dict[str, Case] = {
    "mse": real("mse", "mse_loss", X, Y),
    "mae": real("mae", "l1_loss", X, Y),
    "mae, no error": real("mae", "l1_loss", X[0], X[0]),
    "huber": real("huber", "huber_loss", X, Y),
    "huber, delta": real("huber", "huber_loss", X, Y, 0.3),
    "huber, kinks": real("huber", "huber_loss", KINKS, np.zeros(5)),
    "binary": real(BCE, BCE, X, SHARES),
    "binary, far": real(BCE, BCE, FAR, np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])),
    "binary, far and wrong": real(BCE, BCE, FAR, np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]])),
    "cross_entropy": classes(X, CLASSES),
    "cross_entropy, one row": classes(X[:1], CLASSES[:1]),
    "cross_entropy, padded": classes(X, PADDED),
    "cross_entropy, other padding": classes(X, PAD_IS_1, ignore_index=1),
    "cross_entropy, smoothed": classes(X, CLASSES, smoothing=0.1),
    "cross_entropy, smoothed and padded": classes(X, PADDED, smoothing=0.4),
    "cross_entropy, far": classes(FAR, np.array([0, 2])),
    "cross_entropy, small integers": classes(X, CLASSES.astype(np.uint8)),
    "kl_div": ("kl_div", divergence, LOG_P),
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_a_loss_agrees_with_torch(name: str, dtype: Any, reduction: str) -> None:
    _, program, x = CASES[name]
    assert_same_as_torch(lambda a: program(a, reduction), x, dtype=dtype)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_leads_downhill_as_torchs_does(name: str) -> None:
    _, program, x = CASES[name]
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    assert_same_descent(
        *({"x": ours}, {"x": theirs}),
        *(lambda: program(ours.tanh() * 3), lambda: program(theirs.tanh() * 3)),
    )


def test_every_loss_has_a_case() -> None:
    assert public_names(losses) == {name for name, *_ in CASES.values()}


def test_both_operands_get_a_gradient() -> None:
    pairs: dict[str, tuple[Program, Program]] = {
        "mse": (losses.mse, functional.mse_loss),
        "mae": (losses.mae, functional.l1_loss),
        "huber": (losses.huber, functional.huber_loss),
        "kl_div": (
            lambda a, b: losses.kl_div(a, b, "sum"),
            lambda a, b: functional.kl_div(a, b, reduction="sum", log_target=True),
        ),
        "binary": (losses.binary_cross_entropy_with_logits, getattr(functional, BCE)),
    }
    for ours, theirs in pairs.values():
        assert_same_as_torch(ours, LOG_P, LOG_Q, torch_program=theirs)


# ----- A second opinion -----


def autograd_log_softmax(x: Any) -> Any:
    return x - anp.log(anp.sum(anp.exp(x), axis=1, keepdims=True))


OPINIONS: dict[str, Program] = {
    "mse": lambda x: anp.mean((x - Y) ** 2),
    "huber, delta": lambda x: anp.mean(
        anp.where(anp.abs(x - Y) < 0.3, (x - Y) ** 2 / 2, 0.3 * (anp.abs(x - Y) - 0.15))
    ),
    "binary": lambda x: (
        -anp.mean(
            SHARES * anp.log(1 / (1 + anp.exp(-x))) + (1 - SHARES) * anp.log(1 / (1 + anp.exp(x)))
        )
    ),
    "cross_entropy": lambda x: -anp.mean(autograd_log_softmax(x)[np.arange(5), CLASSES]),
    "kl_div": lambda x: anp.mean(anp.exp(LOG_Q) * (LOG_Q - x)),
}


@pytest.mark.parametrize("name", OPINIONS)
def test_autograd_agrees(name: str) -> None:
    _, program, x = CASES[name]
    leaf = Tensor(x, requires_grad=True)
    loss = program(leaf)
    loss.backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(loss.item(), OPINIONS[name](x), rtol=1e-12)
    np.testing.assert_allclose(leaf.grad, autograd.grad(OPINIONS[name])(x), rtol=1e-10, atol=1e-14)


# ----- Properties -----


def test_more_padding_changes_neither_the_loss_nor_the_gradient() -> None:
    short, long = (Tensor(X[:n], requires_grad=True) for n in (3, 5))
    padded = np.array([*CLASSES[:3], -100, -100])
    one, other = losses.cross_entropy(short, CLASSES[:3]), losses.cross_entropy(long, padded)
    one.backward()
    other.backward()
    assert one.item() == other.item()
    assert short.grad is not None
    assert long.grad is not None
    np.testing.assert_array_equal(long.grad, [*short.grad, [0.0] * 3, [0.0] * 3])


def test_a_divergence_is_0_between_equals_and_asymmetric() -> None:
    p, q = Tensor(LOG_P), Tensor(LOG_Q)
    assert losses.kl_div(p, p).item() == 0
    assert losses.kl_div(p, q).item() > 0
    assert losses.kl_div(p, q).item() != pytest.approx(losses.kl_div(q, p).item(), rel=0.01)


def test_a_sum_over_padding_alone_is_0() -> None:
    assert losses.cross_entropy(Tensor(X), np.full(5, -100), reduction="sum").item() == 0


# ----- What they refuse -----


@pytest.mark.parametrize("name", ["mse", "mae", "huber", BCE, "kl_div"])
def test_a_loss_does_not_broadcast(name: str) -> None:
    message = r"prediction has shape \(3, 1\), but the target has shape \(3,\)"
    with pytest.raises(ValueError, match=message):
        getattr(losses, name)(Tensor(np.ones((3, 1))), Tensor(np.ones(3)))


@pytest.mark.parametrize("name", ["mse", "mae", "huber", BCE, "kl_div"])
def test_there_are_two_reductions(name: str) -> None:
    with pytest.raises(ValueError, match="no reduction 'none': 'mean' or 'sum'"):
        getattr(losses, name)(Tensor(X), Tensor(Y), reduction="none")


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        (CLASSES.astype(float), TypeError, "integers, and these are float64"),
        (CLASSES > 0, TypeError, "integers, and these are bool"),
        (CLASSES[:4], ValueError, r"logits of shape \(5, 3\) and targets of shape \(4,\): reshape"),
        (CLASSES[:, None], ValueError, r"targets of shape \(5, 1\)"),
        (np.array([0, 1, 2, 3, 0]), IndexError, "from 0 to 3, but the logits have classes 0 to 2"),
        (np.array([0, 1, 2, -1, 0]), IndexError, "targets from -1 to 2"),
        (np.full(5, -100), ValueError, "no target counts, so there is no mean: skip this batch"),
    ],
)
def test_cross_entropy_refuses(targets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        losses.cross_entropy(Tensor(X), targets)


def test_cross_entropy_refuses_a_sequence_of_logits() -> None:
    with pytest.raises(ValueError, match=r"reshape them to \(n, classes\) and \(n,\)"):
        losses.cross_entropy(Tensor(normal(2, 5, 3)), np.zeros((2, 5), int))
