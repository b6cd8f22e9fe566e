"""A loaded engine or library, called through its dialect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.engine import Dialect


class Library:
    """A loaded module, spoken to through its dialect."""

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        self.module: Any = module
        top = module.__name__.partition(".")[0]
        self._names = {"np": np, top: sys.modules[top], **vars(module)}
        self._code = {
            what: compile(said, f"<{what} of {dialect.module}>", "eval")
            for what, said in dialect.expressions.items()
        }

    def leaf(self, data: NumericArray) -> Any:
        """A tensor that holds a copy of `data` and asks for a gradient."""
        return self._say("leaf", data=data.copy())

    def value(self, t: Any) -> NumericArray:
        """What a tensor holds; numbers and arrays are taken as they are."""
        plain = isinstance(t, np.ndarray | np.generic | int | float | list)
        return np.asarray(t if plain else self._say("value", t=t))

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient, None where the library gives none."""
        gradient = self._say("gradient", t=t)
        return None if gradient is None else np.asarray(gradient)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the library's backward pass from `t`."""
        self._say("backward", t=t, cotangent=cotangent)

    def call(
        self,
        function: Callable[..., Any],
        given: tuple[Any, ...],
        leaves: Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """What a probe's function returns for these leaves."""
        return function(*given, **leaves, **options)

    def can(self, what: str) -> bool:
        """Whether the dialect has words for this."""
        return what in self._code

    def backward_again(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass and keep the graph for another."""
        self._say("backward_again", t=t, cotangent=cotangent)

    @contextlib.contextmanager
    def tracing(self, steps: list[Any]) -> Iterator[None]:
        """Record into `steps` the backward walks inside, where the library can."""
        if not self.can("trace"):
            yield
            return
        with self._say("trace") as recorded:
            try:
                yield
            finally:
                steps += recorded

    def _say(self, what: str, **given: Any) -> Any:
        return eval(self._code[what], self._names, given)  # noqa: S307  the dialect is code by design
