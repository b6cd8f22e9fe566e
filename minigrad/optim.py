"""Optimizers."""

from __future__ import annotations

from collections.abc import Iterable

from minigrad.tensor import Tensor


class SGD:
    """Plain gradient descent: each step moves each parameter by `-lr` times its gradient."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        """`lr` is the learning rate, the same for all parameters."""
        self.parameters = list(parameters)
        self.lr = float(lr)  # a NumPy float64 would turn float32 parameters into float64

    def step(self) -> None:
        """Move the parameters. Those without a gradient stay; `data` is a new array."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.data = parameter.data - self.lr * parameter.grad

    def zero_grad(self) -> None:
        """Forget the gradients: `backward()` adds to what it finds."""
        for parameter in self.parameters:
            parameter.grad = None
