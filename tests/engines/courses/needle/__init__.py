"""An engine with the interface of CMU 10-714's homework: ops with `compute` and `gradient`."""

from needle.autograd import Tensor

__all__ = ["Tensor"]
