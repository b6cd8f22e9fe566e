"""Descents on minigrad and on PyTorch, compared at every step."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from minigrad import Tensor, nn
from tests.minigrad.against_torch import compare

DTYPES = [np.float64, np.float32]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(*shape: int, seed: int = 7) -> np.ndarray[Any, Any]:
    return rng(seed).standard_normal(shape)


def assert_same_descent(
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, torch.Tensor],
    loss: Callable[[], Tensor],
    torch_loss: Callable[[], torch.Tensor],
    steps: int = 5,
) -> None:
    """The loss, the gradient of each leaf and the leaf itself, over some steps downhill."""
    assert list(ours) == list(theirs)
    for step in range(steps):
        value, expected = loss(), torch_loss()
        compare(f"loss {step}", value.data, expected.detach().numpy())
        value.backward()
        expected.backward()
        for name, leaf in ours.items():
            twin = theirs[name]
            assert leaf.grad is not None, f"{name} got no gradient"
            assert twin.grad is not None
            compare(f"gradient of {name} {step}", leaf.grad, twin.grad.numpy())
            leaf.data, leaf.grad = leaf.data - 0.1 * leaf.grad, None
            with torch.no_grad():
                twin -= 0.1 * twin.grad
            twin.grad = None
            compare(f"{name} {step}", leaf.data, twin.detach().numpy())


def assert_same_layer(
    layer: nn.Module, twin: torch.nn.Module, x: np.ndarray[Any, Any], dtype: Any
) -> None:
    """A descent through a layer that is not the first, with respect to its input too."""
    twin = twin.to(torch.from_numpy(np.zeros(0, dtype)).dtype)
    ours, theirs = dict(layer.named_parameters()), dict(twin.named_parameters())
    theirs = dict(zip(ours, theirs.values(), strict=True))
    with torch.no_grad():
        for name, parameter in ours.items():
            assert parameter.shape == tuple(theirs[name].shape), name
            theirs[name].copy_(torch.from_numpy(parameter.data))
    if x.dtype.kind == "f":
        ours["input"] = Tensor(x, requires_grad=True, dtype=dtype)
        theirs["input"] = torch.tensor(x.astype(dtype), requires_grad=True)

    def loss() -> Tensor:
        outputs = layer(ours["input"].tanh() if "input" in ours else x)
        return sum(_distance(y, dtype) for y in _several(outputs))  # type: ignore[return-value]

    def torch_loss() -> torch.Tensor:
        outputs = twin(theirs["input"].tanh() if "input" in theirs else torch.from_numpy(x))
        return sum(_distance(y, dtype) for y in _several(outputs))  # type: ignore[return-value]

    assert_same_descent(ours, theirs, loss, torch_loss)


def _distance(output: Any, dtype: Any) -> Any:
    """The mean squared distance to random targets: its cotangent differs in every element."""
    targets: Any = normal(*output.shape, seed=8).astype(dtype)
    if isinstance(output, torch.Tensor):
        targets = torch.from_numpy(targets)
    return ((output - targets) ** 2).mean()


def _several(outputs: Any) -> Any:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def public_names(module: ModuleType) -> set[str]:
    """The classes and functions that a module defines for others."""
    return {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    }
