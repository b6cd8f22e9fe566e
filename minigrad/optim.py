"""Optimizers, clipping, schedules, and accumulation of gradients over small batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from minigrad.functions import grad
from minigrad.nn.module import Module
from minigrad.precision import widened
from minigrad.state import State, check_state
from minigrad.tensor import Tensor
from minigrad.types import Array


class Optimizer:
    """Moves parameters against their gradients, and keeps some arrays for each of them.

    A step makes new arrays. It is written `data + -lr * direction`, since NumPy can add into the
    temporary product on the right, and `data - lr * direction` would allocate a second array.
    """

    remembers: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold its state: lists with one array for each parameter."""

    step: Callable[[], None]
    """What a subclass does with the gradients."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        """`lr` is the learning rate, the same for all parameters. Raises ValueError for none."""
        self.parameters = list(parameters)
        self.lr = float(lr)  # a NumPy float64 would turn float32 parameters into float64
        if not self.parameters:
            raise ValueError("no parameters to optimize: is the iterator used up, or a list empty?")
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError("a parameter comes twice, and would move twice in a step")

    def zero_grad(self) -> None:
        """Clear the gradients, since `backward()` adds to them."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Array]:
        """Return copies of the learning rate and of the state, by name."""
        state = {"lr": np.array(self.lr)}
        for name in self.remembers:
            for i, array in enumerate(getattr(self, name)):
                state[f"{name}.{i}"] = np.array(array)
        return state

    def load_state_dict(self, state: State) -> None:
        """Load them. Raises like `check_state`, and then nothing has changed."""
        check_state(self.state_dict(), state)
        self.lr = float(state["lr"])
        for name in self.remembers:
            for i, array in enumerate(getattr(self, name)):
                getattr(self, name)[i] = np.array(state[f"{name}.{i}"], array.dtype)

    def _zeros(self) -> list[Array]:
        return [np.zeros_like(parameter.data) for parameter in self.parameters]


class SGD(Optimizer):
    """Gradient descent, with momentum (a velocity sums up past gradients) and decay.

    Source of the momentum: Sutskever et al., On the Importance of Initialization and Momentum,
    2013; written as in `torch.optim.SGD`, the learning rate outside the velocity.
    """

    remembers = ("velocity",)

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum, self.nesterov = float(momentum), nesterov
        self.weight_decay = float(weight_decay)
        self.velocity = self._zeros() if momentum else []

    def step(self) -> None:
        """Move the parameters. Those without a gradient stay; `data` is a new array."""
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                direction = parameter.grad
                if self.weight_decay:
                    direction = direction + self.weight_decay * parameter.data
                if self.momentum:
                    self.velocity[i] = self.momentum * self.velocity[i] + direction
                    ahead = direction + self.momentum * self.velocity[i]
                    direction = ahead if self.nesterov else self.velocity[i]
                parameter.data = parameter.data + -self.lr * direction


class Adam(Optimizer):
    """Descent along a mean of past gradients, divided by the root of a mean of their squares.

    Both means start at 0, with a correction for it; `t` counts a parameter's steps. Weight decay is
    added to the gradient, so it is scaled too. Source: Kingma and Ba, Adam, 2015, algorithm 1.
    """

    remembers = ("m", "v", "t")

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        self.beta1, self.beta2 = map(float, betas)
        self.eps, self.weight_decay = float(eps), float(weight_decay)
        self.m, self.v = self._zeros(), self._zeros()
        self.t = [np.array(0) for _ in self.parameters]

    def step(self) -> None:
        """Move the parameters. Those without a gradient stay; `data` is a new array."""
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                gradient = parameter.grad + self.weight_decay * parameter.data
                parameter.data = parameter.data + -self.lr * self._direction(i, gradient)

    def _direction(self, i: int, gradient: Array) -> Array:
        """Update the means of parameter `i`, and divide the first by the root of the second."""
        self.t[i] = self.t[i] + 1
        self.m[i] = self.beta1 * self.m[i] + (1 - self.beta1) * gradient
        self.v[i] = self.beta2 * self.v[i] + (1 - self.beta2) * gradient**2
        mean = self.m[i] / (1 - self.beta1 ** int(self.t[i]))
        mean_square = self.v[i] / (1 - self.beta2 ** int(self.t[i]))
        return mean / (np.sqrt(mean_square) + self.eps)


class AdamW(Adam):
    """Adam with a separate weight decay, by `lr * weight_decay` times the parameter.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def step(self) -> None:
        """Move the parameters. Those without a gradient stay; `data` is a new array."""
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                decay = self.weight_decay * parameter.data
                direction = self._direction(i, parameter.grad) + decay
                parameter.data = parameter.data + -self.lr * direction


class Groups(Optimizer):
    """Several optimizers as one: groups of parameters with settings of their own.

    `lr` is a factor for the rates of all groups, initially 1, so a schedule keeps their ratios.
    """

    def __init__(self, *groups: Optimizer) -> None:
        """Raises ValueError if there is no group, or a parameter is in two of them."""
        self.groups = groups
        self.rates = [group.lr for group in groups]
        super().__init__([p for group in groups for p in group.parameters], 1.0)

    def step(self) -> None:
        """Let each group step at its own rate, times the factor."""
        for group, rate in zip(self.groups, self.rates, strict=True):
            group.lr = rate * self.lr
            group.step()

    def state_dict(self) -> dict[str, Array]:
        """Return the factor and the states of the groups, by number and name."""
        state = super().state_dict()
        for i, group in enumerate(self.groups):
            state |= {f"{i}.{name}": part for name, part in group.state_dict().items()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Load them. Raises like `check_state`, and then nothing has changed."""
        check_state(self.state_dict(), state)
        self.lr = float(state["lr"])
        for i, group in enumerate(self.groups):
            group.load_state_dict({name: state[f"{i}.{name}"] for name in group.state_dict()})


def split_by_decay(model: Module) -> tuple[list[Tensor], list[Tensor]]:
    """Return the parameters of a model that are usually decayed, and the others.

    Those with several axes are decayed: the weights that multiply inputs. Biases, and the scales of
    normalisation, have one axis.
    """
    parameters = model.parameters()
    decayed = [parameter for parameter in parameters if parameter.ndim > 1]
    return decayed, [parameter for parameter in parameters if parameter.ndim <= 1]


# ----- Gradients -----


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients by a common factor so that their joint norm is at most `max_norm`.

    Returns the norm before clipping. Source: Pascanu et al., On the Difficulty of Training
    Recurrent Neural Networks, 2013, algorithm 1; the 1e-6 is PyTorch's.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total = math.sqrt(sum(float((widened(gradient) ** 2).sum()) for gradient in gradients))
    scale = min(1.0, max_norm / (total + 1e-6))
    for gradient in gradients:
        gradient *= scale
    return total


def accumulate_gradients(
    mean_loss: Callable[..., Tensor], batches: Sequence[Sequence[Any]], counts: Sequence[int]
) -> float:
    """Add the gradients of `mean_loss(*batch)` over several small batches, as over one large batch.

    `counts` holds the number of samples (or tokens that count) of each mean; the gradients and the
    returned loss are those of the mean over all of them.
    """
    total = 0.0
    for batch, count in zip(batches, counts, strict=True):
        share = mean_loss(*batch) * (count / sum(counts))
        share.backward()
        total += share.item()
    return total


def scaled_backward(loss: Tensor, parameters: Iterable[Tensor], scale: float = 1024.0) -> None:
    """`loss.backward()` for the `parameters`, with cotangents scaled up in between, for float16.

    Below 6e-5 float16 loses digits, and below 3e-8 everything. The loss is multiplied by `scale`
    (and must not overflow, so it is at most 65504 / `scale`), and each gradient is divided by it at
    the end, so clipping and steps are unaffected. Use a power of 2, which does not round. Raises
    like `backward`. Source: Micikevicius et al., Mixed Precision Training, 2018, section 3.2.
    """
    parameters = list(parameters)
    for parameter, scaled in zip(parameters, grad(loss * scale, parameters), strict=True):
        if scaled is not None:
            gradient = scaled / scale
            before = parameter.grad
            parameter.grad = gradient if before is None else before + gradient


class GradScaler:
    """A loss scale that adapts: halved after an overflow, doubled after many steps without one.

    The order is `scale(loss).backward()`, `unscale_`, any clipping, `step`, `update`, as in
    `torch.amp.GradScaler`. Source: as for `scaled_backward`.
    """

    def __init__(self, init_scale: float = 2.0**16, growth_interval: int = 2000) -> None:
        self.factor, self.growth_interval = float(init_scale), growth_interval
        self.steps = 0
        self.overflowed: dict[Optimizer, bool] = {}  # by optimizer, once unscaled

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        return loss * self.factor

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, once between two updates, and look for overflows."""
        if optimizer in self.overflowed:
            return
        overflowed = False
        for parameter in optimizer.parameters:
            if parameter.grad is not None:
                parameter.grad = parameter.grad / self.factor
                overflowed = overflowed or not np.isfinite(parameter.grad).all()
        self.overflowed[optimizer] = overflowed

    def step(self, optimizer: Optimizer) -> None:
        """Call `optimizer.step()`, unless one of its gradients is infinite or NaN."""
        self.unscale_(optimizer)
        if not self.overflowed[optimizer]:
            optimizer.step()

    def update(self) -> None:
        """Set the scale of the next step."""
        overflowed = any(self.overflowed.values())
        self.steps = 0 if overflowed else self.steps + 1
        if overflowed:
            self.factor /= 2
        elif self.steps == self.growth_interval:
            self.factor, self.steps = self.factor * 2, 0
        self.overflowed.clear()


# ----- Schedules: from the number of steps taken to a factor for the learning rate -----


def warmup(step: int, steps: int) -> float:
    """Rise linearly from 1/steps to 1, in the last of the `steps`. Source: as for `cosine`."""
    return (step + 1) / steps if step < steps else 1.0


def cosine(step: int, steps: int, floor: float = 0.0) -> float:
    """Fall from 1 to `floor` in `steps`, along half a cosine, and then stay at `floor`.

    Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017,
    equation 5.
    """
    progress = min(1.0, step / steps)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def warmup_cosine(step: int, warmup_steps: int, steps: int, floor: float = 0.0) -> float:
    """Rise for `warmup_steps`, then fall along a cosine until `steps` in total."""
    if step < warmup_steps:
        return warmup(step, warmup_steps)
    return cosine(step - warmup_steps, steps - warmup_steps, floor)


class Scheduler:
    """Sets `optimizer.lr` to its initial value times `schedule(steps taken)`, from the start.

    Call `step()` after the optimizer's.
    """

    def __init__(self, optimizer: Optimizer, schedule: Callable[[int], float]) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        self.base_lr = optimizer.lr
        self.steps = 0
        self._set_lr()

    def step(self) -> None:
        """Count a step and set the learning rate of the next one."""
        self.steps += 1
        self._set_lr()

    def state_dict(self) -> dict[str, Array]:
        """Return the initial learning rate and the number of steps."""
        return {"base_lr": np.array(self.base_lr), "steps": np.array(self.steps)}

    def load_state_dict(self, state: State) -> None:
        """Load them, and set the learning rate."""
        check_state(self.state_dict(), state)
        self.base_lr, self.steps = float(state["base_lr"]), int(state["steps"])
        self._set_lr()

    def _set_lr(self) -> None:
        self.optimizer.lr = float(self.base_lr * self.schedule(self.steps))
