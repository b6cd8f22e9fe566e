"""Functions of several tensors, or with options that methods lack, under PyTorch's names."""
# ruff: noqa: A002 - `input` is PyTorch's keyword, and the builtin is not used here

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from minigrad import elementwise, linalg, movement, selection
from minigrad.tensor import Operand, Tensor, apply, walk
from minigrad.types import Array


def where(condition: Tensor | Array | bool, input: Operand, other: Operand) -> Tensor:
    """Return `input` where the `condition` holds, else `other`. All three broadcast.

    Raises TypeError for a condition that is not boolean.
    """
    return apply(selection.where, input, other, condition=np.array(condition))


def maximum(input: Operand, other: Operand) -> Tensor:
    """The larger one, element by element; at a tie each gets half of the gradient."""
    return apply(selection.maximum, input, other)


def minimum(input: Operand, other: Operand) -> Tensor:
    """The smaller one, element by element; at a tie each gets half of the gradient."""
    return apply(selection.minimum, input, other)


def einsum(equation: str, *operands: Operand) -> Tensor:
    """`einsum("ij,jk->ik", a, b)`: products summed over the letters that the output lacks."""
    wanted = [isinstance(x, Tensor) and x.requires_grad for x in operands]
    return apply(linalg.einsum, *operands, subscripts=equation, wanted=wanted)


def solve(A: Operand, B: Operand) -> Tensor:  # noqa: N803 - PyTorch's names
    """The `X` with `A @ X = B`, for matrices or batches of them: `torch.linalg.solve`.

    Unlike in PyTorch, only a `B` with one axis is a vector; in a batch of vectors, each is a
    matrix of one column.
    """
    return apply(linalg.solve, A, B)


def cat(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Join tensors along an existing axis."""
    return apply(movement.concatenate, *tensors, axis=dim)


concatenate = cat


def stack(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Join tensors of the same shape along a new axis."""
    return apply(movement.stack, *tensors, axis=dim)


def pad(input: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:
    """Pad with a constant, as `torch.nn.functional.pad` does: `pad` starts with the last axis.

    (left, right), or (left, right, top, bottom), and so on. Raises ValueError for a negative
    width, for half a pair, or for more pairs than axes.
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(f"{len(pad)} widths: two for each axis, and there are {input.ndim} axes")
    pairs = [*zip(pad[::2], pad[1::2], strict=True)]
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    return apply(movement.pad, input, widths=widths, value=value)


def gelu(input: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Like `torch.nn.functional.gelu`: exact, or with "tanh" approximate in a tenth of the time."""
    return apply(elementwise.gelu_tanh if approximate == "tanh" else elementwise.gelu, input)


def silu(input: Tensor, beta: Operand = 1.0) -> Tensor:
    """`input * (beta * input).sigmoid()`; without `beta`, like `torch.nn.functional.silu`."""
    return apply(elementwise.silu, input, beta)


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> Tensor:
    """Round to multiples of `scale`, of which there are `quant_max - quant_min + 1`.

    The integers are `quant_min` to `quant_max`, and `zero_point` stands for 0. The slope is 1
    inside the range, where the true one is 0, and 0 outside. Source: Bengio et al., Estimating or
    Propagating Gradients Through Stochastic Neurons for Conditional Computation, 2013.
    """
    low, high = quant_min - zero_point, quant_max - zero_point
    x = (input / scale).clamp(low - 0.5, high + 0.5)
    steps = np.clip(np.round(x.data), low, high)
    return (x + (steps - x.data)) * scale


def grad(
    output: Tensor,
    inputs: Tensor | Sequence[Tensor],
    cotangent: ArrayLike | None = None,
    retain_graph: bool = False,
) -> tuple[Array | None, ...]:
    """Return a tuple with the gradients of `output`, weighted by `cotangent`, for the `inputs`.

    One array per input, of its shape and dtype, also for an input that is itself a result; None if
    the output does not depend on it. No tensor's `grad` changes. Raises like `Tensor.backward`.
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    totals = walk(output, cotangent, retain_graph, wanted=set(inputs))
    return tuple([totals.get(node) for node in inputs])
