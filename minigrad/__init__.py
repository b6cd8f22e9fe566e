"""minigrad: a small reverse-mode automatic differentiation engine on NumPy arrays.

Read `types`, then `tensor`, which is the core, then `broadcasting` and `elementwise`: the first 500
lines are an evening, and `(a + b).backward()` is in them from end to end. README.md has the order
for the rest. No module imports one that imports it.
"""

from minigrad import checkpoint, data, losses, metrics, nn, optim
from minigrad.broadcasting import unbroadcast
from minigrad.functions import (
    cat,
    concatenate,
    einsum,
    gelu,
    grad,
    maximum,
    minimum,
    pad,
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
    "gelu",
    "grad",
    "losses",
    "maximum",
    "metrics",
    "minimum",
    "nn",
    "no_grad",
    "optim",
    "pad",
    "stack",
    "tensor",
    "trace",
    "unbroadcast",
    "where",
]
