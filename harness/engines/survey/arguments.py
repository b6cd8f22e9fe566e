"""Which argument of a function that un-broadcasts is the gradient, seen in backward passes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np

from harness.engines.adapter.calling import attribute_of
from harness.engines.survey.numbers import sample

WIDE, NARROW = (4, 3), (3,)


def gradient_arguments(
    uses: Iterable[Callable[..., Any]], root: str, library: Any
) -> dict[str, int]:
    """Return the position of the gradient in the calls of each function that reduces it, by name.

    A function reduces a gradient if one of its arguments has the shape of the output, and its
    result that of the smaller operand. A name whose calls differ is left out.
    """
    recorder = _Recorder(root, library)
    for use in uses:
        leaves = {"a": sample(WIDE), "b": np.abs(sample(NARROW, 1)) + 1.0}
        try:
            output = library.call(use, (), {n: library.leaf(data) for n, data in leaves.items()})
            sys.setprofile(recorder)
            library.backward(output, np.ones(WIDE))
        except BaseException:  # an op that the engine does not have
            continue
        finally:
            sys.setprofile(None)
    return {name: min(places) for name, places in recorder.places.items() if len(places) == 1}


class _Recorder:
    """A profile function that compares the shapes of arguments and results."""

    def __init__(self, root: str, library: Any) -> None:
        self.root, self.library = root, library
        self.places: dict[str, set[int]] = {}
        self._pending: dict[FrameType, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """Record a call of the engine's code, and which of its arguments a result was made of."""
        if not frame.f_code.co_filename.startswith(self.root):
            return
        if event == "call":
            self._pending[frame] = self._wide_arguments(frame)
        elif event == "return":
            wide = self._pending.pop(frame, set())
            if len(wide) == 1 and self._shape(result) == NARROW:
                self.places.setdefault(frame.f_code.co_name, set()).update(wide)

    def _wide_arguments(self, frame: FrameType) -> set[int]:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount]
        values = [frame.f_locals.get(name) for name in names]
        first = 1 if values and _is_receiver(values[0], code.co_name) else 0
        return {i - first for i, value in enumerate(values) if self._shape(value) == WIDE}

    def _shape(self, value: Any) -> tuple[int, ...] | None:
        try:
            plain = isinstance(value, np.ndarray)
            shape: tuple[int, ...] = np.shape(
                value if plain else self.library.value(self.library.wrap(value))
            )
        except BaseException:  # not a tensor
            return None
        return shape


def _is_receiver(value: Any, name: str) -> bool:
    """Whether the first argument of a function of that name is what it was called on."""
    owner = value if isinstance(value, type) else type(value)
    method = inspect.getattr_static(owner, name, None)
    return callable(attribute_of(owner, name)) and not isinstance(method, staticmethod)
