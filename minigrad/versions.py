"""The times of changes in place, to detect whether a rule still has the values that it needs."""

from __future__ import annotations

from typing import ClassVar


class Version:
    """When an array was last changed in place. Tensors that share memory share one.

    Time is the number of changes so far, of all tensors together: a node stores it when it is
    recorded, and this one number shows whether any of its arrays has changed since.

    Only `add_`, `mul_`, `copy_` and `tensor[index] = ...` count. Direct writes into `data` are not
    detected, as in PyTorch: a gradient is then silently wrong. A new array for `data`, as an
    optimizer assigns, need not be detected, since rules keep the old array.
    """

    now: ClassVar[int] = 0
    changed = 0


UNCHANGED = Version()
"""The version of every tensor that has not changed and shares no memory, as most tensors do."""
