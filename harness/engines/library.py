"""A loaded engine or library, called through its dialect."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.creations import Creations, watching
from harness.engines.engine import Dialect
from harness.engines.expressions import PARAMETERS, function_of

CODE_OF = "<breaklab: "
"""The start of the file name of a dialect's expressions, which tracebacks show."""


class Library:
    """A loaded module, called through its dialect; `module` is what probes know as `lib`."""

    def __init__(self, dialect: Dialect, module: ModuleType) -> None:
        self.module: Any = module
        self._names = names_for(module, dialect.functions)
        self._code = {
            name: self._compile(name, expression)
            for name, expression in dialect.expressions.items()
        }

    def leaf(self, data: NumericArray) -> Any:
        """A tensor with a copy of `data` that requires a gradient."""
        return self._evaluate("leaf", data=data.copy())

    def value(self, t: Any) -> NumericArray:
        """The data of a tensor; numbers and arrays are returned as arrays."""
        plain = isinstance(t, np.ndarray | np.generic | int | float | list)
        return np.asarray(t if plain else self._evaluate("value", t=t))

    def gradient(self, t: Any) -> NumericArray | None:
        """A leaf's gradient, or None if the library has not computed one."""
        gradient = self._evaluate("gradient", t=t)
        return None if gradient is None else np.asarray(gradient)

    def backward(self, t: Any, cotangent: NumericArray) -> None:
        """Run the library's backward pass from `t`."""
        self._evaluate("backward", t=t, cotangent=cotangent)

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        leaves: Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """The result of a probe's function for these leaves."""
        return function(*arguments, **leaves, **options)

    def creating(self, creations: Creations) -> contextlib.AbstractContextManager[None]:
        """Record the leaves that a probe creates inside."""
        return watching(self.module, creations)

    def requires_gradient(self, t: Any) -> bool:
        """Whether a created tensor takes part in the backward pass."""
        return bool(getattr(t, "requires_grad", False))

    def supports(self, name: str) -> bool:
        """Whether the dialect defines this expression."""
        return name in self._code

    def backward_again(self, t: Any, cotangent: NumericArray) -> None:
        """Run the backward pass and keep the graph for another."""
        self._evaluate("backward_again", t=t, cotangent=cotangent)

    @contextlib.contextmanager
    def tracing(self, steps: list[Any]) -> Iterator[None]:
        """Append the backward steps inside to `steps`, if the library can trace them."""
        if not self.supports("trace"):
            yield
            return
        with self._evaluate("trace") as recorded:
            try:
                yield
            finally:
                steps += recorded

    def _evaluate(self, name: str, **arguments: Any) -> Any:
        return self._code[name](**arguments)

    def _compile(self, name: str, expression: str) -> Callable[..., Any]:
        return function_of(expression, PARAMETERS[name], self._names, f"{CODE_OF}{name}>")


def names_for(module: ModuleType, functions: Iterable[str]) -> dict[str, Any]:
    """Return the names that the expressions of a module's dialect may use."""
    tops = {name.partition(".")[0] for name in (module.__name__, *functions)}
    packages = {top: importlib.import_module(top) for top in tops}
    return {"np": np, **packages, **vars(module)}
