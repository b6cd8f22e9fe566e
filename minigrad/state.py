"""The state of a model or an optimizer as arrays by name, to save and to load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from minigrad.types import Array

State = Mapping[str, Array]
"""Arrays by name."""


class Stateful(Protocol):
    """An object that can be saved and resumed."""

    def state_dict(self) -> dict[str, Array]:
        """Return copies of everything that changes with time."""

    def load_state_dict(self, state: State) -> None:
        """Load what `state_dict` returned."""


def check_state(own: State, given: State) -> None:
    """Compare the required names and shapes, `own`, with the `given` ones.

    Raises KeyError for names that are missing or unknown, ValueError for another shape. Without
    this check, an array of a wrong shape would be loaded and silently broadcast.
    """
    missing = [name for name in own if name not in given]
    if missing:
        raise KeyError(f"the state has no {', '.join(missing)}: it was saved by something else")
    unknown = [name for name in given if name not in own]
    if unknown:
        raise KeyError(f"nothing here takes {', '.join(unknown)} from the state")
    for name, array in own.items():
        if given[name].shape != array.shape:
            raise ValueError(
                f"{name} has shape {array.shape} here, but shape {given[name].shape} in the state"
            )
