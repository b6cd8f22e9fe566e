"""`Module`: the base class of layers and models, and how its parts are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from minigrad.state import State, check_state
from minigrad.tensor import Tensor
from minigrad.types import Array


class Module:
    """A layer or a model. Its parts are its attributes, also those in lists, tuples and dicts.

    Tensors that require a gradient are its parameters, NumPy arrays its buffers (what changes
    without a gradient, such as running statistics), other modules its submodules. A part has a
    dotted name, `layers.0.weight`; one that occurs twice counts once, under its first name.
    """

    training = True
    """Whether dropout drops and batch norm uses the batch; set by `train()` and `eval()`."""

    forward: Callable[..., Any]
    """The computation of a subclass: it returns a tensor, or several."""

    def __call__(self, *inputs: Any) -> Any:
        """Compute the output."""
        return self.forward(*inputs)

    # ----- Parts -----

    def modules(self) -> list[Module]:
        """Return this module and all modules inside it."""
        return [part for _, part in _parts("", self, set()) if isinstance(part, Module)]

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The leaves that require a gradient, in the order of the attributes."""
        for name, part in _parts("", self, set()):
            if isinstance(part, Tensor) and part.requires_grad and part.is_leaf:
                yield name, part

    def parameters(self) -> list[Tensor]:
        """The leaves that require a gradient, in the order of the attributes; shared ones once."""
        return [parameter for _, parameter in self.named_parameters()]

    def generators(self) -> dict[str, np.random.Generator]:
        """The random generators by name: dropout has one."""
        parts = _parts("", self, set())
        return {name: part for name, part in parts if isinstance(part, np.random.Generator)}

    # ----- Mode -----

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all its submodules to training, or to evaluation if False."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch this module and all its submodules to evaluation."""
        return self.train(False)

    # ----- State -----

    def state_dict(self) -> dict[str, Array]:
        """Copies of the parameters, frozen ones included, and of the buffers, by name."""
        return {name: np.array(part) for name, part in self._state().items()}

    def load_state_dict(self, state: State) -> None:
        """Load parameters and buffers from `state`, cast to the module's dtypes.

        Raises KeyError for missing or additional names and ValueError for another shape; then
        nothing has changed.
        """
        own = self._state()
        check_state({name: np.asarray(part) for name, part in own.items()}, state)
        for name, part in own.items():
            if isinstance(part, Tensor):
                part.data = np.array(state[name], part.dtype)
            else:
                part[...] = state[name]

    def _state(self) -> dict[str, Tensor | Array]:
        return {
            name: part
            for name, part in _parts("", self, set())
            if isinstance(part, np.ndarray) or (isinstance(part, Tensor) and part.is_leaf)
        }


def _parts(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield `value` and everything inside it, by dotted name, in order, except what was `seen`."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield name, value
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Module):
        inside = vars(value).items()
    elif isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    for key, part in inside:
        yield from _parts(f"{name}.{key}" if name else str(key), part, seen)


# ----- Modules of modules -----


class Sequential(Module):
    """Layers in sequence; a layer may be any function of a tensor, such as `Tensor.tanh`."""

    def __init__(self, *layers: Callable[[Tensor], Tensor]) -> None:
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers in order."""
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(Module):
    """`x + inner(x)`, where `inner` keeps the shape: the gradient can bypass it.

    Source: He et al., Deep Residual Learning for Image Recognition, 2016, section 3.1.
    """

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Add the input to the result of `inner`. Raises ValueError for another shape."""
        change = self.inner(x)
        if change.shape != x.shape:
            raise ValueError(f"inner must keep the shape {x.shape}, and made {change.shape}")
        return x + change
