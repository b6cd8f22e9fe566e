"""A learner's own package, with the most natural name."""

from .tensor import Tensor

__all__ = ["Tensor"]
