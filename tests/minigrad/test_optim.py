"""Optimizers, clipping, accumulation and schedules against PyTorch."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from minigrad import Tensor, losses, nn, optim
from tests.minigrad.against_torch import compare
from tests.minigrad.modules import DTYPES, normal, public_names, rng

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "SGD, nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "SGD, decay": ("SGD", {"lr": 0.1, "weight_decay": 0.3}),
    "SGD, all": (
        "SGD",
        {"lr": 0.1, "momentum": 0.5, "nesterov": True, "weight_decay": 0.2},
    ),
    "Adam": ("Adam", {"lr": 0.1}),
    "Adam, by default": ("Adam", {}),
    "Adam, options": ("Adam", {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.3}),
    "AdamW": ("AdamW", {"lr": 0.1}),
    "AdamW, by default": ("AdamW", {}),
    "AdamW, options": ("AdamW", {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.3}),
}

Twins = tuple[list[Tensor], list[torch.Tensor]]


def twins(dtype: Any = np.float64) -> Twins:
    arrays = [normal(3, 2, seed=1).astype(dtype), normal(2, seed=2).astype(dtype)]
    ours = [Tensor(array, requires_grad=True) for array in arrays]
    return ours, [torch.tensor(array, requires_grad=True) for array in arrays]


def give_gradients(parameters: Twins, step: int) -> None:
    """Others at each step; in step 1 the second parameter has none."""
    for i, (mine, other) in enumerate(zip(*parameters, strict=True)):
        gradient = normal(*mine.shape, seed=10 * step + i).astype(mine.dtype)
        mine.grad = gradient.copy()
        other.grad = torch.from_numpy(gradient.copy())
        if (step, i) == (1, 1):
            mine.grad = other.grad = None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_an_optimizer_takes_the_steps_of_torch(name: str, dtype: Any) -> None:
    kind, options = CASES[name]
    ours, theirs = parameters = twins(dtype)
    optimizer: Any = getattr(optim, kind)(ours, **({"lr": 1e-3} | options))
    twin = getattr(torch.optim, kind)(theirs, **options)
    for step in range(5):
        give_gradients(parameters, step)
        optimizer.step()
        twin.step()
        for mine, other in zip(*parameters, strict=True):
            compare(f"step {step}", mine.data, other.detach().numpy())


def test_the_default_learning_rates_are_torchs() -> None:
    for kind in (optim.Adam, optim.AdamW):
        assert kind(twins()[0]).lr == 1e-3


def test_every_public_name_has_a_case() -> None:
    optimizers = {kind for kind, _ in CASES.values()} | {"Optimizer"}
    others = {"clip_grad_norm_", "accumulate_gradients", "scaled_backward", "Scheduler"}
    others |= {"GradScaler", "Groups", "split_by_decay"}
    assert public_names(optim) == optimizers | others | SCHEDULES


@pytest.mark.parametrize("name", CASES)
def test_a_step_leaves_arrays_and_gradients_alone(name: str) -> None:
    kind, options = CASES[name]
    ours, _ = parameters = twins()
    optimizer = getattr(optim, kind)(ours, **({"lr": 1e-3} | options))
    for step in (0, 2):
        give_gradients(parameters, step)
        arrays = [array for p in ours for array in (p.data, p.grad) if array is not None]
        before = [array.copy() for array in arrays]
        optimizer.step()
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_optimizer_goes_on_as_if_nothing_had_happened(name: str) -> None:
    kind, options = CASES[name]
    ours, _ = parameters = twins()
    optimizer = getattr(optim, kind)(ours, **({"lr": 1e-3} | options))
    for step in range(3):
        give_gradients(parameters, step)
        optimizer.step()
    optimizer.lr = 0.02

    copies = [Tensor(p.data, requires_grad=True) for p in ours]
    resumed = getattr(optim, kind)(copies, **(options | {"lr": 5.0}))
    resumed.load_state_dict(optimizer.state_dict())
    for step in range(3, 6):
        give_gradients(parameters, step)
        for copy, parameter in zip(copies, ours, strict=True):
            copy.grad = parameter.grad
        optimizer.step()
        resumed.step()
    for copy, parameter in zip(copies, ours, strict=True):
        np.testing.assert_array_equal(copy.data, parameter.data)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_state_has_copies_of_the_parameters_dtype(dtype: Any) -> None:
    ours, _ = parameters = twins(dtype)
    optimizer = optim.Adam(ours)
    give_gradients(parameters, 0)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["lr", "m.0", "m.1", "v.0", "v.1", "t.0", "t.1"]
    assert {state[name].dtype for name in ("m.0", "v.1")} == {np.dtype(dtype)}
    for array in state.values():
        array[...] = 7
    assert all((array != 7).all() for array in optimizer.state_dict().values())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda _: optim.SGD([], lr=0.1), ValueError, "no parameters to optimize: is the iter"),
        (lambda ours: optim.Adam([*ours, ours[0]]), ValueError, "comes twice, and would move tw"),
        (
            lambda ours: optim.Adam(ours).load_state_dict(optim.SGD(ours, 0.1).state_dict()),
            KeyError,
            "the state has no m.0, m.1, v.0, v.1, t.0, t.1",
        ),
        (
            lambda ours: optim.SGD(ours, 0.1, momentum=0.9).load_state_dict(
                optim.SGD(ours[::-1], 0.1, momentum=0.9).state_dict()
            ),
            ValueError,
            r"velocity.0 has shape \(3, 2\) here, but shape \(2,\) in the state",
        ),
    ],
)
def test_an_optimizer_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(twins()[0])


# ----- Clipping -----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 100.0, float("inf")])
def test_clipping_is_torchs(max_norm: float, dtype: Any) -> None:
    ours, theirs = parameters = twins(dtype)
    give_gradients(parameters, 0)
    unused = Tensor([1.0], requires_grad=True)
    norm = optim.clip_grad_norm_(iter([*ours, unused]), max_norm)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    assert type(norm) is float
    assert norm == pytest.approx(expected.item(), rel=1e-6)
    for mine, other in zip(*parameters, strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        compare("gradient", mine.grad, other.grad.numpy())
    assert unused.grad is None


def test_clipping_keeps_the_direction_and_reaches_the_norm() -> None:
    ours, _ = parameters = twins()
    give_gradients(parameters, 0)
    before = np.concatenate([p.grad.ravel() for p in ours if p.grad is not None])
    optim.clip_grad_norm_(ours, 0.5)
    after = np.concatenate([p.grad.ravel() for p in ours if p.grad is not None])
    assert np.linalg.norm(after) == pytest.approx(0.5, rel=1e-5)
    np.testing.assert_allclose(after / before, (after / before)[0], rtol=1e-12)


# ----- Accumulation -----


def test_micro_batches_of_unequal_size_have_the_gradient_of_the_whole() -> None:
    model, x, y = nn.Linear(3, 2, rng=rng()), normal(10, 3), normal(10, 2, seed=1)

    def loss(inputs: Any, targets: Any) -> Tensor:
        return losses.mse(model(Tensor(inputs)), targets)

    whole = loss(x, y)
    whole.backward()
    expected = [p.grad for p in model.parameters()]
    optim.SGD(model.parameters(), lr=1.0).zero_grad()
    parts = [slice(0, 5), slice(5, 9), slice(9, 10)]
    batches = [(x[part], y[part]) for part in parts]
    total = optim.accumulate_gradients(loss, batches, [len(x) for x, _ in batches])
    assert total == pytest.approx(whole.item(), rel=1e-12)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        np.testing.assert_allclose(parameter.grad, gradient, rtol=1e-12)


def test_tokens_count_and_padding_does_not() -> None:
    logits = Tensor(normal(6, 4), requires_grad=True)
    targets = np.array([1, -100, -100, 2, 3, 0])
    losses.cross_entropy(logits, targets).backward()
    expected, logits.grad = logits.grad, None
    batches = [(slice(0, 3),), (slice(3, 6),)]
    counts = [int((targets[part] != -100).sum()) for (part,) in batches]
    assert counts == [1, 3]
    optim.accumulate_gradients(
        lambda part: losses.cross_entropy(logits[part], targets[part]), batches, counts
    )
    assert logits.grad is not None
    assert expected is not None
    np.testing.assert_allclose(logits.grad, expected, rtol=1e-12)


def test_each_batch_has_a_count() -> None:
    with pytest.raises(ValueError, match="shorter"):
        optim.accumulate_gradients(lambda: Tensor(1.0, True), [(), ()], [1])


# ----- Scaled losses -----


def faint_loss(w: Tensor) -> Tensor:
    """Of w (2, 1): its cotangents are near 1e-6, and it adds up a hundred times as much."""
    x = 100 * normal(64, 2).astype(w.dtype)
    return ((x @ w * 1e-4) ** 2).mean()


def test_a_scale_keeps_the_digits_that_float16_would_lose() -> None:
    exact, half = (Tensor([[0.5], [0.25]], requires_grad=True, dtype=d) for d in (float, "f2"))
    faint_loss(exact).backward()
    faint_loss(half).backward()
    assert exact.grad is not None
    assert half.grad is not None
    assert np.abs(half.grad / exact.grad - 1).max() > 0.2
    half.grad = None
    optim.scaled_backward(faint_loss(half), [half])
    assert half.grad is not None
    assert half.grad.dtype == np.float16
    np.testing.assert_allclose(half.grad, exact.grad, rtol=5e-3)


def test_a_scaled_gradient_is_added_to_what_is_there() -> None:
    w, alone, idle = (Tensor(normal(3, seed=i), requires_grad=True) for i in range(3))
    (w**2).sum().backward()
    optim.scaled_backward((w**3).sum() + alone.sum(), iter([w, alone, idle]), 8.0)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad, 2 * w.data + 3 * w.data**2, rtol=1e-14)
    np.testing.assert_array_equal(np.asarray(alone.grad), np.ones(3))
    assert idle.grad is None


def test_a_scaled_loss_is_one_number() -> None:
    w = Tensor(normal(3), requires_grad=True)
    with pytest.raises(RuntimeError, match="one element"):
        optim.scaled_backward(w * w, [w])


# ----- Schedules -----

SCHEDULES = {"warmup", "cosine", "warmup_cosine"}


def rates(schedule: Callable[[int], float], steps: int) -> list[float]:
    """The learning rate before each step."""
    optimizer = optim.SGD(twins()[0], lr=0.4)
    scheduler = optim.Scheduler(optimizer, schedule)
    observed = []
    for _ in range(steps):
        observed.append(optimizer.lr)
        optimizer.step()
        scheduler.step()
    return observed


def torch_rates(make: Callable[[Any], Any], steps: int) -> list[float]:
    optimizer = torch.optim.SGD(twins()[1], lr=0.4)
    scheduler = make(optimizer)
    observed = []
    for _ in range(steps):
        observed.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return observed


def test_warmup_is_torchs_linear_schedule() -> None:
    expected = torch_rates(
        lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=1 / 5, total_iters=4), 8
    )
    np.testing.assert_allclose(rates(lambda s: optim.warmup(s, 5), 8), expected, rtol=1e-12)


def test_cosine_is_torchs_and_stays_at_its_floor() -> None:
    expected = torch_rates(
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=7, eta_min=0.04), 8
    )
    actual = rates(lambda s: optim.cosine(s, 7, floor=0.1), 10)
    np.testing.assert_allclose(actual, [*expected, 0.04, 0.04], rtol=1e-12)


def test_warmup_cosine_joins_the_two_without_a_step_down() -> None:
    factors = [optim.warmup_cosine(s, 4, 12) for s in range(14)]
    assert factors[:4] == [optim.warmup(s, 4) for s in range(4)]
    assert factors[4:] == [optim.cosine(s, 8) for s in range(10)]
    assert factors[3] == factors[4] == 1
    assert factors[12] == 0
    assert optim.warmup_cosine(0, 0, 12) == 1


def test_a_scheduler_resumes_where_it_was() -> None:
    optimizer = optim.SGD(twins()[0], lr=0.4)
    scheduler = optim.Scheduler(optimizer, lambda s: optim.cosine(s, 7))
    for _ in range(3):
        scheduler.step()
    other = optim.SGD(twins()[0], lr=1.0)
    resumed = optim.Scheduler(other, lambda s: optim.cosine(s, 7))
    resumed.load_state_dict(scheduler.state_dict())
    assert other.lr == optimizer.lr
    resumed.step()
    assert other.lr == 0.4 * optim.cosine(4, 7)


def test_a_schedule_of_numpy_numbers_keeps_float32() -> None:
    parameter = Tensor([1.0], requires_grad=True, dtype=np.float32)
    optimizer = optim.SGD([parameter], lr=0.1)
    optim.Scheduler(optimizer, lambda _: np.float64(0.5))
    parameter.sum().backward()
    optimizer.step()
    assert parameter.dtype == np.float32


def test_the_options_have_torchs_names() -> None:
    for kind in ("SGD", "Adam", "AdamW"):
        ours = list(inspect.signature(getattr(optim, kind)).parameters)[1:]
        theirs = inspect.signature(getattr(torch.optim, kind)).parameters
        assert set(ours) <= set(theirs)


# ----- The loss scaler -----


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of infinite gradients
def test_a_scaler_takes_the_steps_of_torch_and_skips_those_that_overflow() -> None:
    (mine, *_), (other, *_) = twins(np.float32)
    scaler = optim.GradScaler(init_scale=2.0**10, growth_interval=3)
    twin_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    optimizer, twin = optim.SGD([mine], lr=0.1), torch.optim.SGD([other], lr=0.1)
    other.requires_grad_()
    for step in range(12):
        factor = 1e38 if step in (2, 3, 9) else 1.0
        optimizer.zero_grad()
        twin.zero_grad()
        scaler.scale((mine * mine).sum() * factor).backward()
        twin_scaler.scale((other * other).sum() * factor).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            twin_scaler.unscale_(twin)
            optim.clip_grad_norm_([mine], 0.5)
            torch.nn.utils.clip_grad_norm_([other], 0.5)
        scaler.step(optimizer)
        twin_scaler.step(twin)
        scaler.update()
        twin_scaler.update()
        assert scaler.factor == twin_scaler.get_scale(), step
        compare(f"step {step}", mine.data, other.detach().numpy())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of infinite gradients
@pytest.mark.parametrize("overflowing", [None, 0, 1])
def test_a_scaler_treats_each_optimizer_as_torchs_does(overflowing: int | None) -> None:
    parameters = ours, theirs = twins(np.float32)
    scaler = optim.GradScaler(init_scale=2.0**10)
    twin_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizers = [optim.SGD([mine], lr=0.1) for mine in ours]
    twin_optimizers = [torch.optim.SGD([other], lr=0.1) for other in theirs]
    for i, (mine, other) in enumerate(zip(*parameters, strict=True)):
        factor = 1e38 if i == overflowing else 1.0
        scaler.scale((mine * mine).sum() * factor).backward()
        twin_scaler.scale((other * other).sum() * factor).backward()
    scaler.unscale_(optimizers[1])
    twin_scaler.unscale_(twin_optimizers[1])
    for optimizer, twin in zip(optimizers, twin_optimizers, strict=True):
        scaler.step(optimizer)
        twin_scaler.step(twin)
    scaler.update()
    twin_scaler.update()
    assert scaler.factor == twin_scaler.get_scale()
    for mine, other in zip(*parameters, strict=True):
        compare("the parameter", mine.data, other.detach().numpy())


# ----- Groups of parameters -----


def test_groups_take_the_steps_of_torchs_under_a_schedule() -> None:
    ours, theirs = parameters = twins()
    groups = optim.Groups(
        optim.SGD(ours[:1], lr=0.1, momentum=0.5, weight_decay=0.2), optim.SGD(ours[1:], lr=0.4)
    )
    settings = {"params": theirs[:1], "lr": 0.1, "momentum": 0.5, "weight_decay": 0.2}
    twin = torch.optim.SGD([settings, {"params": theirs[1:], "lr": 0.4}])
    scheduler = optim.Scheduler(groups, lambda step: optim.cosine(step, 4))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(twin, T_max=4)
    for step in range(4):
        give_gradients(parameters, step)
        groups.step()
        twin.step()
        scheduler.step()
        schedule.step()
        for mine, other in zip(*parameters, strict=True):
            compare(f"step {step}", mine.data, other.detach().numpy())


def test_groups_continue_from_their_state() -> None:
    def make() -> optim.Groups:
        one, two = twins()[0]
        return optim.Groups(optim.Adam([one], lr=0.1), optim.SGD([two], lr=0.2, momentum=0.9))

    groups, resumed = make(), make()
    groups.lr = 0.5
    for parameter in groups.parameters:
        parameter.grad = np.ones_like(parameter.data)
    groups.step()
    state = groups.state_dict()
    resumed.load_state_dict(state)
    np.testing.assert_equal(resumed.state_dict(), state)
    assert {"lr", "0.m.0", "1.velocity.0"} < state.keys()
    with pytest.raises(KeyError):
        resumed.load_state_dict({"lr": np.array(1.0)})


def test_a_parameter_belongs_to_one_group_and_all_are_cleared() -> None:
    one, two = twins()[0]
    with pytest.raises(ValueError, match="a parameter comes twice"):
        optim.Groups(optim.SGD([one], lr=0.1), optim.SGD([two, one], lr=0.1))
    with pytest.raises(ValueError, match="no parameters"):
        optim.Groups()
    one.grad, two.grad = np.ones((3, 2)), np.ones(2)
    optim.Groups(optim.SGD([one], lr=0.1), optim.SGD([two], lr=0.1)).zero_grad()
    assert one.grad is two.grad is None


def test_matrices_are_decayed_and_vectors_are_not() -> None:
    model = nn.Sequential(nn.Linear(3, 2, rng=rng()), nn.LayerNorm(2))
    decayed, others = optim.split_by_decay(model)
    assert [parameter.shape for parameter in decayed] == [(2, 3)]
    assert [parameter.shape for parameter in others] == [(2,)] * 3
