"""Calling a function that may say its arguments otherwise than PyTorch: `axis` for `dim`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

SPELLINGS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes", "dims"),
    "keepdim": ("keepdims", "keep_dims"),
    "axis": ("dim", "axes", "dims"),
    "keepdims": ("keepdim", "keep_dims"),
    "min": ("a_min", "min_val", "low", "lo"),
    "max": ("a_max", "max_val", "high", "hi"),
}


def call(function: Callable[..., Any], given: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call it, options by the names that it has for them, a shape as it takes one.

    Raises what the function raises, TypeError where it takes no such arguments.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C: it will say itself what it takes
        return function(*given, **_as_numpy(options))
    respelled = {_spelled(name, parameters): option for name, option in options.items()}
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        respelled = _as_numpy(respelled)  # it hands them on, most likely to NumPy
    arranged = _arranged(given, parameters)
    try:
        return function(*arranged, **respelled)
    except TypeError:
        packed = _packed(arranged)
        if packed is None:
            raise
    return function(*packed, **respelled)


def _packed(given: Sequence[Any]) -> Sequence[Any] | None:
    """The whole numbers at the end as one tuple, where there are several: a shape, or axes."""
    first = len(given)
    while first and isinstance(given[first - 1], int):
        first -= 1
    return [*given[:first], tuple(given[first:])] if len(given) - first > 1 else None


def takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether it can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def attributes_of(thing: Any) -> list[str]:
    """The names of its attributes, also where it answers `dir` with what cannot be sorted."""
    try:
        return dir(thing)
    except Exception:  # a `__dir__` of its own may fail in any way
        classes = thing.__mro__ if isinstance(thing, type) else (*type(thing).__mro__, thing)
        names = {name for each in classes for name in getattr(each, "__dict__", ())}
        return sorted(name for name in names if isinstance(name, str))


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute; None where there is none, or where a `__getattr__` of its own fails."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _as_numpy(options: dict[str, Any]) -> dict[str, Any]:
    return {{"dim": "axis", "keepdim": "keepdims"}.get(k, k): each for k, each in options.items()}


def _spelled(name: str, parameters: Any) -> str:
    if name in parameters:
        return name
    return next((other for other in SPELLINGS.get(name, ()) if other in parameters), name)


def _arranged(given: Sequence[Any], parameters: Any) -> Sequence[Any]:
    """A shape or an order of axes as a tuple or as arguments of their own, whichever is taken."""
    places = [p for p in parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in places)
    fixed = sum(
        p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in places
    )
    numbers = [isinstance(each, int) for each in given]
    first = numbers.index(True) if True in numbers else len(given)
    if not variadic and len(given) > fixed and all(numbers[first:]):
        return [*given[:first], tuple(given[first:])]
    last = given[-1] if given else None
    if variadic and isinstance(last, tuple) and all(isinstance(each, int) for each in last):
        return [*given[:-1], *last]
    return given
