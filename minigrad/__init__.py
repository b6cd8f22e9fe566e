"""minigrad: a small reverse-mode automatic differentiation engine on NumPy arrays.

Read `autodiff` first (the graph and the walk), then a rule in `elementwise`, then `tensor`.
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
