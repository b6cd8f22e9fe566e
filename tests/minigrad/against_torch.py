"""One program on minigrad and on PyTorch, compared forwards and backwards."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import minigrad

Program = Callable[..., Any]
Input = tuple[int, ...] | np.ndarray[Any, Any]
"""A shape, drawn from a fixed seed, or the values themselves."""
Case = tuple[Program, *tuple[Input, ...]]


LIBRARIES: dict[type, Any] = {torch.Tensor: torch, minigrad.Tensor: minigrad}
"""The library that a tensor is from, by its class."""


def of(tensor: Any) -> Any:
    """The library that a tensor is from."""
    return LIBRARIES[type(tensor)]


def functional(tensor: Any) -> Any:
    """Where that library has its functions for layers."""
    return torch.nn.functional if of(tensor) is torch else of(tensor)


def single(tensor: Any) -> Any:
    """The library's name for float32."""
    return torch.float32 if of(tensor) is torch else np.float32


def draw(*inputs: Input, seed: int = 7) -> list[np.ndarray[Any, Any]]:
    """Float64 arrays: away from 0, where some derivatives do not exist."""
    rng = np.random.default_rng(seed)

    def away_from_zero(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return np.asarray(rng.choice([-1.0, 1.0], shape) * rng.uniform(0.2, 1.5, shape))

    return [away_from_zero(x) if isinstance(x, tuple) else x for x in inputs]


def assert_same_as_torch(
    program: Program,
    *inputs: Input,
    torch_program: Program | None = None,
    dtype: Any = np.float64,
    leaf: Callable[..., Any] = minigrad.Tensor,
) -> None:
    """Shape, then dtype, then value; of the output, then of each input's gradient."""
    arrays = [array.astype(dtype, copy=False) for array in draw(*inputs)]
    ours = [leaf(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    with np.errstate(all="ignore"):  # torch computes 0/0 without a warning
        output = program(*ours)
        expected = (torch_program or program)(*theirs)
        compare("output", output.data, expected.detach().numpy())
        cotangent = np.asarray(np.random.default_rng(8).standard_normal(output.shape), dtype)
        output.backward(cotangent)
    expected.backward(torch.from_numpy(cotangent))
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine.grad is not None, f"input {i} got no gradient"
        compare(f"gradient of input {i}", mine.grad, other.grad.numpy())


def compare(what: str, actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Raise AssertionError that says what differs: shape, dtype or value."""
    assert isinstance(actual, np.ndarray), f"{what}: a {type(actual).__name__}, not an array"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, not {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, not {expected.dtype}"
    tolerance = 1e-12 if actual.dtype == np.float64 else 2e-5
    np.testing.assert_allclose(actual, expected, tolerance, tolerance, err_msg=what, strict=True)
