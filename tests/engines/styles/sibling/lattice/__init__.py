"""The tensors; the rules of their ops are in the package `rules` beside this one."""

from lattice.tensor import Tensor

__all__ = ["Tensor"]
