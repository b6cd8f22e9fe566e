"""Optimizers, on a regression small enough to follow by hand.

The same code runs on PyTorch: the parameters are leaves, and the loss is spelled out. The targets
are far from the initial predictions, so that no gradient comes near zero, where Adam would turn
rounding errors into a direction.
"""

import numpy as np


def _mean_squares(lib, w, b):
    """The loss of the linear model `x @ w + b` on 8 samples, as a function without arguments."""
    rng = np.random.default_rng(3)
    x = lib.tensor(rng.standard_normal((8, 3)))
    y = lib.tensor(rng.standard_normal((8, 2)) + 9.0)
    return lambda: ((x @ w + b - y) ** 2).mean()


def _norm(parameters):
    """The norm of all gradients together."""
    squares = [float((p.grad**2).sum()) for p in parameters if p.grad is not None]
    return sum(squares) ** 0.5


def _descend(
    optimizer, loss, steps, parameters, after_backward=lambda: {}, after_step=lambda: None
):
    """The usual training loop in the right order, with its log."""
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        extra = {"grad_norm": _norm(parameters.values())} | after_backward()
        yield {"loss": value, **parameters, **extra}
        optimizer.step()
        after_step()
    yield {"loss": loss(), **parameters}


def sgd_momentum(lib, w=(3, 2), b=(2,)):
    """SGD with momentum and weight decay: 20 steps, two parameters."""
    optimizer = lib.optim.SGD([w, b], lr=0.05, momentum=0.8, weight_decay=0.1)
    yield from _descend(optimizer, _mean_squares(lib, w, b), 20, {"w": w, "b": b})


def sgd_nesterov(lib, w=(3, 2), b=(2,)):
    """SGD with Nesterov momentum: 10 steps."""
    optimizer = lib.optim.SGD([w, b], lr=0.05, momentum=0.8, nesterov=True)
    yield from _descend(optimizer, _mean_squares(lib, w, b), 10, {"w": w, "b": b})


def adam(lib, w=(3, 2), b=(2,)):
    """Adam with weight decay added to the gradient: 5 steps, averages that start at 0."""
    optimizer = lib.optim.Adam([w, b], lr=0.3, betas=(0.7, 0.9), weight_decay=0.5)
    yield from _descend(optimizer, _mean_squares(lib, w, b), 5, {"w": w, "b": b})


def adam_unit_slope(lib, w=(3,)):
    """Adam with every gradient 1, equal to its square, root and mean: 5 steps."""
    optimizer = lib.optim.Adam([w], lr=0.1, betas=(0.5, 0.9))
    yield from _descend(optimizer, lambda: (w + 5.0).sum(), 5, {"w": w})


def adamw(lib, w=(3, 2), b=(2,)):
    """Adam with decoupled weight decay: 5 steps."""
    optimizer = lib.optim.AdamW([w, b], lr=0.3, betas=(0.7, 0.9), weight_decay=0.5)
    yield from _descend(optimizer, _mean_squares(lib, w, b), 5, {"w": w, "b": b})


def clip_gradients(lib, w=(3, 2), b=(2,)):
    """Two gradients are clipped to a common norm of 6; later ones are shorter and unchanged."""
    clip = getattr(lib.optim, "clip_grad_norm_", None) or lib.nn.utils.clip_grad_norm_
    optimizer = lib.optim.SGD([w, b], lr=0.2)

    def cut():
        before = clip([w, b], 6.0)
        return {"grad_norm": before, "clipped_norm": _norm([w, b]), "max_norm": 6.0}

    yield from _descend(optimizer, _mean_squares(lib, w, b), 10, {"w": w, "b": b}, cut)


def warmup_cosine(lib, w=(3, 2), b=(2,)):
    """A learning rate that rises for 5 steps and falls to 0 along a half cosine in 15 more."""
    optimizer = lib.optim.SGD([w, b], lr=0.1)
    scheduler = _warmup_cosine(lib, optimizer, 5, 20)
    log = _descend(
        optimizer, _mean_squares(lib, w, b), 20, {"w": w, "b": b}, after_step=scheduler.step
    )
    yield from log


def _warmup_cosine(lib, optimizer, warmup, steps):
    """The same schedule in either library."""
    if hasattr(lib.optim, "warmup_cosine"):
        factor = lib.optim.warmup_cosine
        return lib.optim.Scheduler(optimizer, lambda step: factor(step, warmup, steps))
    schedules = lib.optim.lr_scheduler
    up = schedules.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1)
    down = schedules.CosineAnnealingLR(optimizer, steps - warmup)
    return schedules.SequentialLR(optimizer, [up, down], [warmup])


def tied_parameter(lib, w=(3, 3)):
    """One matrix under two names in a module: one parameter, two gradients, one update per step."""

    class Tied(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = self.decoder = getattr(lib.nn, "Parameter", lambda leaf: leaf)(w)

        def forward(self, x):
            return (x @ self.encoder).tanh() @ self.decoder

    model = Tied()
    x = lib.tensor(np.random.default_rng(4).standard_normal((6, 3)))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

    def loss():
        return ((model(x) - x) ** 2).mean()

    yield from _descend(optimizer, loss, 10, {"w": model.encoder})


def two_backwards_one_step(lib, w=(3, 2), b=(2,)):
    """The gradients of two losses add up before the step: two backward passes, one step."""
    optimizer = lib.optim.SGD([w, b], lr=0.1)
    fit = _mean_squares(lib, w, b)
    for _ in range(5):
        optimizer.zero_grad()
        value, penalty = fit(), (w**2).mean()
        value.backward()
        penalty.backward()
        yield {"loss": value, "w": w, "b": b, "grad_norm": _norm([w, b])}
        optimizer.step()


def _off(gradients, expected):
    """The relative error of gradients, rounded so that floating-point error does not show."""
    pairs = zip(gradients, expected, strict=True)
    return round(max(float(np.abs(g - r).max() / np.abs(r).max()) for g, r in pairs), 9)


def accumulate_micro_batches(lib, w=(3, 2), b=(2,)):
    """Micro-batches of 1, 2 and 5 samples give the gradient of the batch of 8."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((8, 3)), rng.standard_normal((8, 2)) + 9.0
    parts = [(x[:1], y[:1]), (x[1:3], y[1:3]), (x[3:], y[3:])]
    optimizer = lib.optim.SGD([w, b], lr=0.1)

    def loss(x, y):
        return ((lib.tensor(x) @ w + b - lib.tensor(y)) ** 2).mean()

    for _ in range(3):
        optimizer.zero_grad()
        whole = loss(x, y)
        whole.backward()
        expected = [w.grad.copy(), b.grad.copy()]
        optimizer.zero_grad()
        value = lib.optim.accumulate_gradients(loss, parts, [1, 2, 5])
        yield {
            "loss": value,
            "w": w,
            "b": b,
            "loss_error": round(abs(value / whole.item() - 1), 9),
            "gradient_error": _off([w.grad, b.grad], expected),
        }
        optimizer.step()


def step_between_two_backwards(lib, w=(4,)):
    """Two losses of the same weights, with a step between their backward passes.

    The second gradient belongs to the weights before the step, which the second loss used.
    """
    optimizer = lib.optim.SGD([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (w * w * w).sum().backward()
        expected = w.grad.copy()
        optimizer.zero_grad()
        first, second = (w * w).sum(), (w * w * w).sum()
        first.backward()
        optimizer.step()
        optimizer.zero_grad()
        second.backward()
        yield {"loss": first, "w": w, "gradient_error": _off([w.grad], [expected])}


def refuse_parameter_twice(lib, w=(3,)):
    """An optimizer gets the same parameter twice, and would update it twice per step."""
    optimizer = lib.optim.SGD([w, w], lr=0.1)
    yield from _descend(optimizer, lambda: (w**2).mean(), 2, {"w": w})
