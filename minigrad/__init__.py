"""minigrad: a small reverse-mode automatic differentiation engine on NumPy arrays.

Read `autodiff` first (the graph and the walk), then a rule in `elementwise`, then `tensor`.
"""

from minigrad import losses, nn, optim
from minigrad.autodiff import no_grad
from minigrad.broadcasting import unbroadcast
from minigrad.tensor import Tensor, tensor

__all__ = ["Tensor", "losses", "nn", "no_grad", "optim", "tensor", "unbroadcast"]
