"""The words in which the rules are written."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Constant = Array | float | np.number[Any]
"""What an op takes beside tensors."""

Cotangents = tuple[Array | None, ...]
"""One cotangent per operand, of the operand's shape; None where it has none."""

Vjp = Callable[[Array], Cotangents]
"""A vector-Jacobian product: from the cotangent of a value to those of the operands.

It may hand on `g` itself and views of it; any other array it hands on once, and keeps no hold of.
"""

Recorded = tuple[Array, Vjp]
"""What an op returns: its value, and the rule that will carry a cotangent back."""

Axis = int | Sequence[int] | None
"""One axis, several, or (None) all of them; negative ones count from the end."""
