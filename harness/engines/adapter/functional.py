"""An engine that differentiates functions: `make_vjp`, `vjp` or `grad`, and no tensors.

The probe *is* the function. It is traced once for each of its leaves, when its output is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.library import Foreign
from harness.engines.adapter.missing import OWN_WAY, NotSpoken
from harness.engines.adapter.tensor import Tensor


class Functional(Foreign):
    """A loaded engine whose dialect says `pull`: the output, and a function of its cotangent.

    In it, `function` is one of a single array, at `data`.
    """

    def leaf(self, data: NumericArray) -> Any:
        """A tensor that holds a copy of `data` and asks for a gradient."""
        return _Leaf(self, data.copy())

    def constant(self, data: Any, dtype: Any = None, **_: Any) -> Any:
        """A tensor of which no gradient is asked."""
        given = np.array(data, dtype)
        return given if given.dtype.kind in "iub" else Tensor(self, given)

    def value(self, t: Any) -> NumericArray:
        """What a tensor holds; of what is being traced, only the engine knows it."""
        held = np.asarray(t.held if isinstance(t, Tensor) else t)
        if held.dtype == object:
            raise NotSpoken("what is being traced cannot be looked at")
        return held

    def dtype(self, t: Tensor) -> Any:
        """The dtype, which what is being traced may know of itself."""
        return getattr(t.held, "dtype", None) or super().dtype(t)

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """The shape, which what is being traced may know of itself."""
        said = getattr(t.held, "shape", None)
        return said if isinstance(said, tuple) else super().shape(t)

    def compare(self, by: Callable[..., Any], one: Tensor, other: Any) -> NumericArray:
        """Where a comparison is true, by the engine's own where it is being traced."""
        seen = np.asarray(by(self.open(one), self.open(other)))
        if seen.dtype != bool:
            raise NotSpoken("what is being traced cannot be compared")
        return seen

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient."""
        return None if t.gradient is None else np.asarray(t.gradient)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Pull the cotangent back to every leaf; a second time adds to the first."""
        if not isinstance(t, _Output):
            raise NotSpoken("a functional engine has no graph to walk within a probe")
        for leaf, pull in t.pulls.items():
            arrived = pull(cotangent)
            leaf.gradient = arrived if leaf.gradient is None else leaf.gradient + arrived

    def call(
        self,
        function: Callable[..., Any],
        given: tuple[Any, ...],
        leaves: Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """The output of a probe's function, ready to be pulled back from."""
        if inspect.isgeneratorfunction(function):
            raise NotSpoken(f"{OWN_WAY}: a training, of which functions keep no graph")
        values = {name: leaf.held for name, leaf in leaves.items()}
        output, pulls = None, {}
        for name, leaf in leaves.items():

            def of_one(x: Any, name: str = name) -> Any:
                others = {each: Tensor(self, value) for each, value in values.items()}
                return self.open(function(*given, **{**others, name: Tensor(self, x)}, **options))

            output, pulls[leaf] = self._say("pull", function=of_one, data=values[name])
        if not leaves:
            return function(*given, **options)
        return _Output(self, output, pulls)

    def is_plain(self, value: Any) -> bool:
        """Arrays are what it computes with; of booleans there is nothing to differentiate."""
        if isinstance(value, np.ndarray | np.generic):
            return value.dtype.kind != "f"
        return super().is_plain(value)

    def operand(self, value: Any) -> Any:
        """What stands beside a tensor in an expression."""
        return self.open(value)

    def method(self, held: Any, name: str) -> Any:
        """Functions come first: an array's own methods are not traced."""
        return None if self.function(name) else super().method(held, name)


class _Leaf(Tensor):
    """An argument of the probe's function."""

    def __init__(self, library: Functional, held: NumericArray) -> None:
        super().__init__(library, held)
        self.gradient: Any = None


class _Output(Tensor):
    """What the function returned, and for each leaf how to pull a cotangent back."""

    def __init__(self, library: Functional, held: Any, pulls: Mapping[_Leaf, Any]) -> None:
        super().__init__(library, held)
        self.pulls = pulls
