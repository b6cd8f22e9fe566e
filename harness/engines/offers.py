"""Whether an engine offers an op on the operands of a call, judging by its class and signatures.

If it does, an exception inside the op is a crash. If not, it may only show that the engine was not
written for these operands: `'int' object has no attribute 'data'`.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from harness.engines.loading import file_with

_NOTES: Mapping[type, str] = {
    bool: r"bool",
    int: r"int|float|Number|Real|ArrayLike",
    float: r"float|Number|Real|ArrayLike",
    tuple: r"[Tt]uple|Sequence|Iterable",
    list: r"[Ll]ist|Sequence|Iterable",
}
"""The words of an annotation that admit an argument of a type."""


def offers(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> bool:
    """Whether a function of an engine, or an operator, is written for these arguments.

    Operators and methods are written for tensors, reflected methods for a number on their left, and
    a parameter for what its annotation says or, without one, its default. A function of a module is
    written only for what its annotations say, as it may be a function of arrays.
    """
    if _is_operator(function):
        method, is_reflected = _method_of(function, arguments)
        if method is None or not is_reflected:
            return _takes(method, arguments, {}, is_method=True)
        notes = [one.annotation for one in signature(method).parameters.values()][1:2]
        return notes == [Parameter.empty] or _takes(
            method, [*arguments[1:], arguments[0]], {}, is_method=True
        )
    inner = function.func if isinstance(function, partial) else function
    is_method = is_tensor(getattr(inner, "__self__", None))
    return _takes(function, arguments, options, is_method=is_method)


def unanswered(function: Callable[..., Any], arguments: Sequence[Any]) -> FunctionType | None:
    """Return the engine's method of an operator that gave up without saying so.

    Python raises the same TypeError if there is no method and if it returns `NotImplemented`. If no
    method of the tensors contains that name, a method of the other operand returned it.
    """
    method, is_reflected = _method_of(function, arguments) if _is_operator(function) else (None, 0)
    if method is None or not offers(function, arguments, {}):
        return None
    tensor = type(_first(arguments[-1 if is_reflected else 0]))
    methods = (item for owner in tensor.__mro__ for item in vars(owner).values())
    is_said = any(
        _has_name("NotImplemented", item.__code__)
        for item in methods
        if isinstance(item, FunctionType)
    )
    return None if is_said else method


def is_tensor(thing: Any) -> bool:
    """Whether the engine defines the class of an object, or of the first one in an array."""
    module = sys.modules.get(type(_first(thing)).__module__)
    return module is not None and file_with(vars(module)) is not None


def _first(thing: Any) -> Any:
    is_array = isinstance(thing, np.ndarray) and thing.dtype == object and thing.size
    return thing.flat[0] if is_array else thing


def _is_operator(function: Callable[..., Any]) -> bool:
    return function is getattr(operator, getattr(function, "__name__", ""), _NEITHER)


_NEITHER = object()


def _method_of(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[FunctionType | None, bool]:
    """Return the method that Python runs for an operator, if any, and whether it is reflected.

    A reflected method runs if the left operand is not a tensor. NumPy composes a product of
    matrices, and indexes arrays, by itself.
    """
    name = function.__name__
    if name in ("matmul", "getitem") and any(isinstance(one, np.ndarray) for one in arguments):
        return None, False
    reflected = not is_tensor(arguments[0])
    owner, form = (arguments[-1], f"__r{name}__") if reflected else (arguments[0], f"__{name}__")
    method = getattr(type(_first(owner)), form, None)
    is_own = is_tensor(owner) and isinstance(method, FunctionType)
    return (method, reflected) if is_own else (None, False)


def _takes(
    function: Callable[..., Any] | None,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    *,
    is_method: bool,
) -> bool:
    """Whether each of a function's parameters is written for its argument."""
    if function is None:
        return False
    try:
        bound = signature(function).bind(*arguments, **options)
    except (TypeError, ValueError):
        return False
    pairs = _pairs(bound.signature.parameters, bound.arguments)
    return (is_method or bool(bound.arguments)) and all(
        _is_for(parameter, argument, is_method) for parameter, argument in pairs
    )


def _pairs(
    parameters: Mapping[str, Parameter], arguments: Mapping[str, Any]
) -> Iterator[tuple[Parameter, Any]]:
    """Yield each argument with its parameter."""
    for name, argument in arguments.items():
        if parameters[name].kind is Parameter.VAR_POSITIONAL:
            yield from ((parameters[name], one) for one in argument)
        elif parameters[name].kind is Parameter.VAR_KEYWORD:
            yield from ((parameters[name], one) for one in argument.values())
        else:
            yield parameters[name], argument


def _is_for(parameter: Parameter, argument: Any, is_method: bool) -> bool:
    """Whether a parameter is written for an argument."""
    note = parameter.annotation
    text = note if isinstance(note, str) else getattr(note, "__name__", None) or str(note)
    text = "" if note is Parameter.empty else text
    if is_tensor(argument):
        words = re.escape(type(_first(argument)).__name__)
        is_noted = re.search(rf"\b({words})\b", text) if text else is_method
        return bool(is_noted) and parameter.default is Parameter.empty
    words = next((_NOTES[kind] for kind in type(argument).__mro__ if kind in _NOTES), "$.")
    return type(parameter.default) is type(argument) or bool(re.search(rf"\b({words})\b", text))


def _has_name(name: str, code: CodeType) -> bool:
    """Whether a name occurs in the code of a function, or of functions nested in it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in code.co_names or any(_has_name(name, one) for one in inner)
