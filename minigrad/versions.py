"""When arrays were changed in place, to know whether a rule still has the values that it needs."""

from __future__ import annotations

from typing import ClassVar


class Version:
    """When an array was last changed in place. Tensors that show the same memory share one.

    Time is counted in changes, of all tensors together: a node that remembers how many there had
    been when it was recorded can tell, from one number, whether any of its arrays changed since.

    Only `add_`, `mul_`, `copy_` and `tensor[index] = ...` count. What is written into `data` by
    hand is not seen, as in PyTorch: a gradient is then wrong and nothing says so. A new array for
    `data`, which is what an optimizer makes, need not be seen: rules keep the old one.
    """

    now: ClassVar[int] = 0
    changed = 0


UNCHANGED = Version()
"""That of every tensor which never changed and shares its memory with none: most have no other."""
