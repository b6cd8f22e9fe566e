"""float16 against PyTorch, forward and backward, in units of the last place of float16.

The exact values are PyTorch's in float64. Where PyTorch in float16 is within one unit of them, so
is minigrad. Where terms cancel or several ops round, minigrad is at most half as far again from
them as PyTorch, and at most 20 units: PyTorch has infinities and errors of 1000 units there.
"""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from minigrad import (
    Tensor,
    elementwise,
    indexing,
    layer_ops,
    losses,
    models,
    movement,
    nn,
    optim,
    precision,
)
from minigrad.precision import AS_STORED
from minigrad.tensor import apply
from minigrad.types import Array
from tests.minigrad.against_torch import Input, Program, draw, of
from tests.minigrad.test_ops import CASES

HALF = np.float16
tensor_module = import_module("minigrad.tensor")  # the attribute of that name is the function
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast")

# ----- Inputs that a sum in float16 gets wrong -----


def values(*shape: int, scale: float = 1.0, offset: float = 0.0, seed: int = 3) -> Array:
    """Normal numbers that float16 can hold."""
    drawn = np.random.default_rng(seed).standard_normal(shape) * scale + offset
    return drawn.astype(HALF).astype(np.float64)


LONG = np.ones(70_000)  # more than 65504 of them, and 32 times the 2048 at which adding ones ends
ROWS = values(2, 5000, offset=1.0)
LARGE = values(3, 40, scale=300.0)  # their squares overflow
CLOSE = values(3, 400, scale=0.5, offset=1000.0)  # the mean is far larger than the deviations
CANCELLING = np.tile([30_000.0, -29_984.0, 0.5], 40)  # every partial sum is larger than the sum
SCORES = values(2, 5000, scale=0.1)
FLAT = np.zeros((1, 5000))

HARD: dict[str, tuple[Program, *tuple[Input, ...]]] = {
    "sum, long": (lambda a: a.sum() / 2, LONG[:60_000]),
    "sum, cancelling": (lambda a: a.sum(), CANCELLING),
    "sum, rows": (lambda a: a.sum(1), ROWS),
    "mean, long": (lambda a: a.mean(), LONG),
    "mean, cancelling": (lambda a: a.mean(), CANCELLING),
    "mean, large": (lambda a: a.mean(1), LARGE * 50),
    "var, long": (lambda a: a.var(1), ROWS),
    "var, close": (lambda a: a.var(1), CLOSE),
    "var, large": (lambda a: a.var(1), LARGE / 2),
    "norm, nine hundreds": (lambda a: a.norm(), np.full((3, 3), 100.0)),
    "norm, large": (lambda a: a.norm(dim=1), LARGE),
    "norm, long": (lambda a: a.norm(dim=1), ROWS),
    "norm, tiny": (lambda a: a.norm(), np.full(9, 1e-4)),
    "cumsum, long": (lambda a: a.cumsum(1), ROWS),
    "cumsum, cancelling": (lambda a: a.cumsum(0), CANCELLING),
    "cumprod, large": (lambda a: a.cumprod(0), np.array([300.0, 200.0, 2.0**-10, 3.0])),
    "logsumexp, long": (lambda a: a.logsumexp(1), FLAT),
    "softmax, long": (lambda a: a.softmax(1), FLAT),
    "softmax, scores": (lambda a: a.softmax(1), SCORES),
    "log_softmax, long": (lambda a: a.log_softmax(1), FLAT),
    "log_softmax, scores": (lambda a: a.log_softmax(1), SCORES),
    "matmul, long": (lambda a, b: a @ b.T, ROWS, ROWS[:1]),
    "matmul, cancelling": (lambda a, b: a @ b, CANCELLING[None], np.ones((120, 2))),
    "matmul, long backwards": (lambda a, b: a @ b, np.ones((5000, 1)), np.ones((1, 2))),
    "matmul, vectors": (lambda a, b: a @ b, LONG, np.full(70_000, 0.5)),
    "einsum, long": (lambda a, b: of(a).einsum("ij,kj->ik", a, b), ROWS, ROWS[:1]),
    "add, un-broadcast": (lambda a, b: a + b, np.ones(1), np.ones(5000)),
    "sub, un-broadcast": (lambda a, b: b - a, np.ones((2, 1)), ROWS),
    "mul, un-broadcast": (lambda a, b: a * b, np.ones((2, 1)), ROWS),
    "div, un-broadcast": (lambda a, b: b / a, np.full((2, 1), 3.0), ROWS),
    "maximum, un-broadcast": (lambda a, b: of(a).maximum(a, b), np.full((2, 1), 9.0), ROWS),
    "where, un-broadcast": (lambda a, b: of(a).where(b > 0, a, b), np.ones((2, 1)), ROWS),
    "expand": (lambda a: a.expand(5000, 3), np.ones((1, 3))),
    "index, repeated": (lambda a: a[np.zeros(5000, int)], np.ones(2)),
    "index_add": (
        lambda a, b: a.index_add(0, index(a, np.zeros(5000, int)), b),
        np.ones(2),
        np.ones(5000),
    ),
    "mul, number out of range": (lambda a: a * 70_000 / 1e5, np.array([0.5, 1e-3])),
    "pow, slope": (lambda a: a**3 / 1000, np.array([30.0, -25.0])),
}


def index(like: Any, positions: Array) -> Any:
    return positions if isinstance(like, Tensor) else torch.from_numpy(positions)


def units(actual: Array, exact: Array) -> float:
    """The largest distance in units; 0 where both are rounded to the same float16.

    Where larger terms cancel, the unit is what float32 resolves of them: some processors add the
    products of float16 more precisely than others.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = exact.astype(HALF)
        size = np.where(np.isfinite(nearest), np.abs(nearest), HALF(65504))
        largest = np.abs(np.where(np.isfinite(nearest), exact, 0)).max(initial=0)
        unit = np.maximum(np.spacing(size).astype(np.float64), np.spacing(np.float32(largest)))
        distance = np.abs(actual.astype(np.float64) - exact) / unit
    equal = (actual == nearest) | (np.isnan(actual) & np.isnan(nearest))
    return float(np.where(equal, 0, np.nan_to_num(distance, nan=np.inf)).max(initial=0))


def errors(ours: Program, theirs: Program, *inputs: Input) -> dict[str, tuple[float, float]]:
    """By array: our distance from the exact values, and PyTorch's."""
    arrays = [np.asarray(x, HALF) for x in draw(*inputs)]
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    half = [torch.tensor(array, requires_grad=True) for array in arrays]
    full = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in arrays]
    with np.errstate(all="ignore"):
        output, rounded, exact = ours(*leaves), theirs(*half), theirs(*full)
        assert output.dtype == HALF
        cotangent = np.random.default_rng(8).uniform(0.5, 1, output.shape).astype(HALF)
        output.backward(cotangent)
    rounded.backward(torch.from_numpy(np.asarray(cotangent)))
    exact.backward(torch.from_numpy(np.asarray(cotangent, np.float64)))
    found = {"output": three(output.data, rounded.detach(), exact.detach())}
    for i, (leaf, other, truth) in enumerate(zip(leaves, half, full, strict=True)):
        assert leaf.grad is not None
        assert leaf.grad.dtype == HALF
        found[f"gradient of input {i}"] = three(leaf.grad, other.grad, truth.grad)
    return found


def three(actual: Array, rounded: Any, exact: Any) -> tuple[float, float]:
    assert str(rounded.dtype) == "torch.float16"
    return units(actual, exact.numpy()), units(rounded.numpy(), exact.numpy())


# ----- Layers and losses, which PyTorch has under other names -----


def with_weights(layer: Any, x: Tensor, *weights: Tensor) -> Tensor:
    for name, weight in zip(("weight", "bias"), weights, strict=False):
        setattr(layer, name, weight)
    output: Tensor = layer(x)
    return output


def evaluated(x: Tensor, *weights: Tensor) -> Tensor:
    layer = nn.BatchNorm1d(40, dtype=HALF).eval()
    layer.running_mean, layer.running_var = MEANS.astype(x.dtype), VARIANCES.astype(x.dtype)
    return with_weights(layer, x, *weights)


def evaluated_torch(x: Any, *weights: Any) -> Any:
    running = [torch.from_numpy(a.astype(HALF)).to(x.dtype) for a in (MEANS, VARIANCES)]
    return functional.batch_norm(x, *running, *weights)


def classes(like: Any, count: int) -> Any:
    return index(like, np.arange(count) % 3)


MEANS, VARIANCES = values(40, seed=5), values(40, seed=6) ** 2
SCALE, SHIFT = values(40, offset=1.0, scale=0.2), values(40, seed=4)
IMAGE, KERNEL = values(2, 2, 20, 20, offset=3.0, scale=8), values(3, 2, 9, 9, seed=4, scale=4)
ZEROS = np.zeros((3, 40))

PAIRS: dict[str, tuple[Program, Program, *tuple[Input, ...]]] = {
    "linear": (
        lambda x, w, b: apply(layer_ops.linear, x, w, b, wanted=True),
        functional.linear,
        ROWS,
        values(3, 5000, seed=4, scale=0.3),
        values(3),
    ),
    "linear, many rows": (
        lambda x, w, b: apply(layer_ops.linear, x, w, b, wanted=True),
        functional.linear,
        np.ones((5000, 2)),
        values(3, 2),
        values(3),
    ),
    "conv2d": (
        lambda x, w: apply(layer_ops.conv2d, x, w, stride=1, padding=2),
        lambda x, w: functional.conv2d(x, w, padding=2),
        IMAGE,
        KERNEL,
    ),
    "avg_pool2d": (
        lambda x: nn.AvgPool2d(60)(x),
        lambda x: functional.avg_pool2d(x, 60),
        values(1, 2, 60, 60, offset=100),
    ),
    "max_pool2d": (
        lambda x: nn.MaxPool2d(3, 1)(x),
        lambda x: functional.max_pool2d(x, 3, 1),
        IMAGE,
    ),
    "layer norm, large": (
        lambda *x: with_weights(nn.LayerNorm(40, dtype=HALF), *x),
        lambda x, w, b: functional.layer_norm(x, (40,), w, b),
        LARGE,
        SCALE,
        SHIFT,
    ),
    "rms norm, large": (
        lambda *x: with_weights(nn.RMSNorm(40, dtype=HALF), *x),
        lambda x, w: functional.rms_norm(x, (40,), w, 1e-6),
        LARGE,
        SCALE,
    ),
    "batch norm, large": (
        lambda *x: with_weights(nn.BatchNorm1d(40, dtype=HALF), *x),
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        values(30, 40, scale=300.0),
        SCALE,
        SHIFT,
    ),
    "batch norm, evaluated": (evaluated, evaluated_torch, LARGE, SCALE, SHIFT),
    "softplus": (lambda x: apply(layer_ops.softplus, x), functional.softplus, LARGE / 20),
    "cross entropy": (
        lambda x: losses.cross_entropy(x, classes(x, 2)),
        lambda x: functional.cross_entropy(x, classes(x, 2)),
        SCORES,
    ),
    "cross entropy, many rows": (
        lambda x: losses.cross_entropy(x, classes(x, 5000)),
        lambda x: functional.cross_entropy(x, classes(x, 5000)),
        values(5000, 3),
    ),
    "mse, large": (losses.mse, functional.mse_loss, LARGE / 2, ZEROS),
    "mae, long": (losses.mae, functional.l1_loss, ROWS * 10, ROWS),
    "huber, large": (
        lambda x, y: losses.huber(x, y, 400.0),
        lambda x, y: functional.huber_loss(x, y, delta=400.0),
        LARGE / 2,
        ZEROS,
    ),
    "bce": (
        losses.binary_cross_entropy_with_logits,
        functional.binary_cross_entropy_with_logits,
        values(2, 50, scale=4),
        np.tile([0.0, 1.0], (2, 25)),
    ),
    "kl": (
        losses.kl_div,
        lambda x, y: functional.kl_div(x, y, reduction="none", log_target=True).mean(),
        values(2, 500, offset=-6),
        values(2, 500, offset=-6, seed=4),
    ),
}


COMPOSED = {"skewed diamond", "softmax, composed"}
"""Both libraries round what is between the ops, and the exact gradient is close to 0."""

SOME = {
    name: (program, program, *inputs)
    for name, (program, *inputs) in (CASES | HARD).items()
    if name not in COMPOSED and not name.startswith("solve")  # PyTorch has no float16 there
}


@pytest.mark.filterwarnings(r"ignore:var\(\). degrees of freedom")
@pytest.mark.parametrize("name", SOME | PAIRS)
def test_float16_is_rounded_once(name: str) -> None:
    for array, (ours, theirs) in errors(*(SOME | PAIRS)[name]).items():
        assert ours <= max(1, min(20, 1.5 * theirs)), f"{array}: {ours} units, PyTorch {theirs}"


def test_what_pytorch_gets_wrong_in_float16() -> None:
    """If a newer PyTorch differs, so may the docstring of this module."""
    assert errors(*SOME["index, repeated"])["gradient of input 0"][1] > 100
    assert errors(*PAIRS["mse, large"])["output"][1] > 1e300


# ----- What it must not change -----


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_dtypes_are_computed_as_without_it_bit_for_bit(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bits() -> list[bytes]:
        result = []
        for program, _, *inputs in (SOME | PAIRS).values():
            arrays = [np.asarray(x, dtype) for x in draw(*inputs)]
            leaves = [Tensor(array, requires_grad=True) for array in arrays]
            output = program(*leaves)
            output.backward(np.ones(output.shape, dtype))
            result += [output.data.tobytes(), *(np.asarray(x.grad).tobytes() for x in leaves)]
        return result

    modules = [tensor_module, precision, losses, nn.normalisation]
    before = bits()
    for module in modules:
        monkeypatch.setattr(module, "HALF", np.dtype("V7"))
    assert [i for i, pair in enumerate(zip(before, bits(), strict=True)) if len({*pair}) > 1] == []


def test_a_view_of_float16_shares_its_memory_and_its_count_of_changes() -> None:
    moves: list[Program] = [
        lambda a: a.reshape(6),
        lambda a: a.T,
        lambda a: a.permute(1, 0),
        lambda a: a.expand(4, 2, 3),
        lambda a: a.flip(0),
        lambda a: a[1:],
        lambda a: a.unsqueeze(0),
        lambda a: a.detach(),
    ]
    for move in moves:
        a = Tensor(np.ones((2, 3)), requires_grad=True, dtype=HALF)
        inner = a * 1
        square = inner * inner
        view = move(inner)
        assert np.may_share_memory(view.data, inner.data)
        inner.detach().mul_(2)
        with pytest.raises(RuntimeError, match="in place"):
            square.sum().backward()


def test_every_op_that_is_not_rounded_exists() -> None:
    ops = {name for module in (movement, indexing, elementwise) for name in vars(module)}
    assert AS_STORED - ops == {"forget"}


def test_to_another_dtype_and_back() -> None:
    a = Tensor([1.0, 2.0], requires_grad=True, dtype=HALF)
    wide = a.to(np.float32)
    assert wide.dtype == np.float32
    assert wide.to("float32") is wide
    (wide * 1e5).sum().backward()
    assert a.grad is not None
    assert a.grad.dtype == HALF
    assert np.isinf(a.grad).all()


def test_float16_beside_float32_becomes_float32() -> None:
    a, b = Tensor([300.0] * 3, True, HALF), Tensor([300.0] * 3, True, np.float32)
    output = (a * b).sum()
    output.backward()
    assert (output.dtype, output.item()) == (np.float32, 270_000)
    assert [None if x.grad is None else x.grad.dtype for x in (a, b)] == [HALF, np.float32]
    assert (a + np.float32(1e5)).dtype == np.float32
    assert (a * np.ones(3, bool)).dtype == HALF


@pytest.mark.parametrize("dtype", [HALF, np.float32])
def test_a_checkpointed_model_in_float16_is_the_model_itself(dtype: Any) -> None:
    def gradients(call: Any) -> list[Array]:
        rng = np.random.default_rng(0)
        model = nn.Sequential(
            nn.Linear(3, 4, rng=rng, dtype=HALF),
            nn.LayerNorm(4, dtype=dtype),
        )
        x = Tensor(values(5, 3), requires_grad=True, dtype=HALF)
        output = call(model, x)
        output.backward(np.full(output.shape, 0.3))
        assert output.dtype == dtype
        return [output.data, *(np.asarray(leaf.grad) for leaf in (x, *model.parameters()))]

    plain = gradients(lambda model, x: model(x))
    for ours, expected in zip(gradients(models.checkpoint), plain, strict=True):
        np.testing.assert_array_equal(ours, expected, strict=True)


def test_running_statistics_keep_the_dtype_of_the_layer() -> None:
    layer = nn.BatchNorm1d(2, dtype=HALF)
    twin = torch.nn.BatchNorm1d(2, dtype=torch.float16)
    x = values(9, 2, scale=300)
    layer(Tensor(x, dtype=HALF))
    twin(torch.from_numpy(x).half())
    for name in ("running_mean", "running_var"):
        ours, theirs = getattr(layer, name), getattr(twin, name).numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, strict=True)


def test_the_norm_for_clipping_is_finite_where_the_squares_of_float16_are_not() -> None:
    w = Tensor(np.zeros(9), requires_grad=True, dtype=HALF)
    w.grad = np.full(9, 300, HALF)
    assert optim.clip_grad_norm_([w], 9.0) == 900
    np.testing.assert_allclose(w.grad, 3, rtol=1e-3)


def test_the_numbers_of_the_readme() -> None:
    assert Tensor(np.full(9, 100), dtype=HALF).norm().item() == 300
    assert Tensor(np.ones(70_000), dtype=HALF).mean().item() == 1
    with np.errstate(over="ignore"):
        assert np.isinf(HALF(256) * HALF(256))
        assert np.ones(5000, HALF).cumsum()[-1] == 2048
