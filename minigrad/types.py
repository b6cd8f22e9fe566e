"""The types used in the rules."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Constant = Array | float | np.number[Any]
"""An operand other than a tensor."""

Cotangents = tuple[Array | None, ...]
"""One cotangent per operand, of the operand's shape; None where it has none."""

Vjp = Callable[[Array], Cotangents]
"""A vector-Jacobian product: from the cotangent of a value to those of the operands.

It may return `g` itself and views of it; any other array is returned once, and not kept.
"""

Recorded = tuple[Array, Vjp]
"""What an op returns: its value, and its rule for the backward pass."""

Axis = int | Sequence[int] | None
"""One axis, several, or (None) all of them; negative ones count from the end."""
