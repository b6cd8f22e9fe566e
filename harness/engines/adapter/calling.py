"""Calling functions whose names and arguments differ from PyTorch's: `axis` for `dim`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np

ALIASES: dict[str, tuple[str, ...]] = {
    "abs": ("absolute",),
    "add": ("__add__",),
    "amax": ("max",),
    "amin": ("min",),
    "cat": ("concatenate", "concat"),
    "clamp": ("clip",),
    "expand": ("broadcast_to",),
    "matmul": ("__matmul__", "dot"),
    "movedim": ("moveaxis",),
    "mul": ("__mul__", "multiply"),
    "neg": ("__neg__", "negative"),
    "permute": ("transpose",),
    "pow": ("__pow__", "power"),
    "sub": ("__sub__", "subtract"),
    "T": ("transpose", "t"),
    "unsqueeze": ("expand_dims",),
    "view": ("reshape",),
}
"""PyTorch's name for an op, and other names with the same meaning."""

OPERATORS: dict[str, tuple[str, ...]] = {
    "add": ("add",),
    "sub": ("sub", "subtract"),
    "mul": ("mul", "multiply"),
    "truediv": ("div", "divide", "truediv"),
    "pow": ("pow", "power"),
    "matmul": ("matmul", "dot"),
}
"""An operator, and the function to call if the engine does not overload it."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes", "dims"),
    "keepdim": ("keepdims", "keep_dims"),
    "axis": ("dim", "axes", "dims"),
    "keepdims": ("keepdim", "keep_dims"),
    "min": ("a_min", "min_val", "low", "lo"),
    "max": ("a_max", "max_val", "high", "hi"),
}
"""A keyword argument, and other names with the same meaning."""


def call_engine(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function or an operator of the engine.

    An exception without a deeper frame is about the call itself: the engine does not overload the
    operator, or does not take these arguments. See `harness.engines.origin`.
    """
    return function(*arguments, **options)


def pull_back(pull: Callable[..., Any], cotangent: Any) -> Any:
    """Call a VJP, which is the backward pass of a functional engine."""
    return pull(cotangent)


def call(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a function with its own names for the options, and with a shape in the form it takes.

    Raises what the function raises; TypeError if it does not take these arguments.
    """
    enter = _call_ours if _is_ours(function) else call_engine
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C: no signature to adapt to
        return enter(function, *arguments, **_with_numpy_names(options))
    renamed = {_own_name(name, parameters): option for name, option in options.items()}
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        renamed = _with_numpy_names(renamed)  # it probably passes them on to NumPy
    arranged = _arrange_shape(arguments, parameters)
    try:
        return enter(function, *arranged, **renamed)
    except TypeError:
        packed = _pack_trailing_integers(arranged)
        if packed is None:
            raise
    return enter(function, *packed, **renamed)


def _is_ours(function: Callable[..., Any]) -> bool:
    """Whether the adapter made a function, or borrows it from NumPy."""
    return isinstance(function, partial) or isinstance(
        getattr(function, "__self__", None), np.ndarray
    )


def _call_ours(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of the adapter: an exception without a deeper frame is our limitation."""
    return function(*arguments, **options)


def takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def positional(function: Callable[..., Any]) -> tuple[int, float]:
    """Return the least and the largest number of positional arguments; (0, inf) if unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return 0, math.inf
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    named = [p for p in parameters if p.kind in kinds]
    required = sum(p.default is Parameter.empty for p in named)
    variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    return required, math.inf if variadic else len(named)


def takes_option(function: Any, name: str) -> bool:
    """Whether a function has a parameter of this name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def attributes_of(thing: Any) -> list[str]:
    """The names of an object's attributes, even if its `__dir__` fails."""
    try:
        return dir(thing)
    except Exception:  # a custom `__dir__` may fail in any way
        classes = thing.__mro__ if isinstance(thing, type) else (*type(thing).__mro__, thing)
        names = {name for owner in classes for name in getattr(owner, "__dict__", ())}
        return sorted(name for name in names if isinstance(name, str))


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute, or None if it is missing or a custom `__getattr__` fails."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _with_numpy_names(options: dict[str, Any]) -> dict[str, Any]:
    numpy_names = {"dim": "axis", "keepdim": "keepdims"}
    return {numpy_names.get(name, name): option for name, option in options.items()}


def _own_name(name: str, parameters: Mapping[str, Parameter]) -> str:
    if name in parameters:
        return name
    return next((alias for alias in ARGUMENTS.get(name, ()) if alias in parameters), name)


def _arrange_shape(arguments: Sequence[Any], parameters: Mapping[str, Parameter]) -> Sequence[Any]:
    """A shape or an order of axes as one tuple or as separate arguments, whichever is accepted."""
    positional = [p for p in parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in positional)
    fixed = sum(
        p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in positional
    )
    are_integers = [isinstance(argument, int) for argument in arguments]
    first = are_integers.index(True) if True in are_integers else len(arguments)
    if not variadic and len(arguments) > fixed and all(are_integers[first:]):
        return [*arguments[:first], tuple(arguments[first:])]
    last = arguments[-1] if arguments else None
    if variadic and isinstance(last, tuple) and all(isinstance(axis, int) for axis in last):
        return [*arguments[:-1], *last]
    return arguments


def _pack_trailing_integers(arguments: Sequence[Any]) -> Sequence[Any] | None:
    """Two or more integers at the end as one tuple, or None if there are fewer."""
    first = len(arguments)
    while first and isinstance(arguments[first - 1], int):
        first -= 1
    if len(arguments) - first < 2:
        return None
    return [*arguments[:first], tuple(arguments[first:])]
