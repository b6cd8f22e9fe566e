"""minigrad: a small reverse-mode automatic differentiation engine on NumPy arrays.

Read `types`, then `tensor`, which is the core, then `broadcasting` and `elementwise`. They are less
than 500 lines, can be read in one evening, and explain `(a + b).backward()`. README.md gives the
order for the rest. There are no circular imports.
"""

from minigrad import checkpoint, data, losses, metrics, models, nn, optim
from minigrad.broadcasting import unbroadcast
from minigrad.functions import (
    cat,
    concatenate,
    einsum,
    fake_quantize_per_tensor_affine,
    gelu,
    grad,
    maximum,
    minimum,
    pad,
    silu,
    solve,
    stack,
    where,
)
from minigrad.modes import no_grad
from minigrad.tape import GradientTape
from minigrad.tensor import Tensor, tensor
from minigrad.tracing import trace

__all__ = [
    "GradientTape",
    "Tensor",
    "cat",
    "checkpoint",
    "concatenate",
    "data",
    "einsum",
    "fake_quantize_per_tensor_affine",
    "gelu",
    "grad",
    "losses",
    "maximum",
    "metrics",
    "minimum",
    "models",
    "nn",
    "no_grad",
    "optim",
    "pad",
    "silu",
    "solve",
    "stack",
    "tensor",
    "trace",
    "unbroadcast",
    "where",
]
