"""Candidate expressions that make a leaf, from the signatures of an engine's class and functions.

A constructor may need more than data (a label, a member of an enumeration), and a leaf may get a
gradient only if several flags are set together.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from inspect import Parameter
from itertools import combinations, islice, product
from typing import Any, Literal

from harness.engines.calling import attribute_of, attributes_of, parameters_of

MAKERS = ("tensor", "variable", "Variable", "parameter", "Parameter", "array", "as_tensor", "leaf")
"""Usual names of functions that make a leaf."""

MOST = 64
"""How many expressions for a leaf are tried on an engine."""

_METHODS = re.compile(
    r"from_(numpy|array|data|list)|as_(leaf|parameter)|leaf|param(eter)?|variable"
)
_DATA = re.compile(r"_?(data|values?|vals?|array|arr|x|content|init|initial|elements|numbers)")
_SWITCH = re.compile(r"grad|track|train|leaf|learn|diff|retain|keep|param|variable|record|const")
_LEAF = re.compile(r"grad|track|train|leaf|learn|diff|param|variable")
_NO_SWITCH = re.compile(r"grad|grad_fn|gradient")
_PARENTS = re.compile(
    r"_?(parents?|child(ren)?|prev|inputs?|args|operands|creators?|edges|sources|deps|ctx|rules?)"
)
_TEXT = re.compile(r"label|name|id|tag|key|title|symbol|op")


def leaves(declared: str, name: str | None, target: Any, modules: dict[str, Any]) -> list[str]:
    """Return expressions that make a leaf: calls of the class, then of usual factory functions."""
    if declared:
        return [declared]
    makers = {name: target} | {
        f"{prefix}{maker}": factory
        for prefix, module in modules.items()
        for maker in MAKERS
        if callable(factory := attribute_of(module, maker)) and factory is not target
    }
    if inspect.isclass(target):
        makers |= {f"{name}.{method}": made for method, made in _class_methods(target)}
    return [
        form
        for value, most in (("data", 16), ("data.tolist()", 8))
        for called, maker in makers.items()
        for form in islice(_calls_of(str(called), maker, value, modules), most)
    ]


def switched_on(leaf: str, t: Any) -> Iterator[str]:
    """Yield expressions that make the same leaf and then ask for its gradient.

    `t` is a leaf that was made by the expression.
    """
    own = vars(t) if hasattr(t, "__dict__") else {}
    flags = [name for name, value in own.items() if value is False and _SWITCH.search(name)]
    for chosen in _subsets(flags):
        if chosen:
            settings = ", ".join(f"setattr(t, {name!r}, True)" for name in chosen)
            yield f"(lambda t: ({settings}, t)[-1])({leaf})"
    for name in attributes_of(type(t)):
        if re.fullmatch(r"(set_)?requires_?grad_?|(retain|keep|enable)_grad_?|watch|track_?", name):
            yield f"(lambda t: (t.{name}(), t)[-1])({leaf})"


def _class_methods(target: type) -> Iterator[tuple[str, Any]]:
    for name in attributes_of(target):
        static = inspect.getattr_static(target, name, None)
        if isinstance(static, classmethod | staticmethod) and _METHODS.fullmatch(name):
            yield name, getattr(target, name)


# ----- Calls of a constructor or factory -----


def _calls_of(name: str, maker: Any, value: str, modules: dict[str, Any]) -> Iterator[str]:
    """Yield calls with this expression for the data."""
    parameters = _parameters(maker)
    data = _data_parameter(parameters)
    required = [p for p in parameters if p is not data and _is_required(p)]
    options = [[f"{p.name}={text}" for text in _literals(p, modules)] for p in required]
    choices = sorted(product(*map(enumerate, options)), key=lambda pairs: sum(i for i, _ in pairs))
    first = not parameters or data is parameters[0]
    switches = _switches([p for p in parameters if p is not data and p not in required], modules)
    passed = value if first or data is None else f"{data.name}={value}"
    for flags in _subsets(switches):
        for chosen in choices:
            yield f"{name}({', '.join((passed, *(text for _, text in chosen), *flags))})"


def _parameters(maker: Any) -> list[Parameter]:
    variadic = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    hints = _hints(maker)
    return [
        p.replace(annotation=hints.get(p.name, p.annotation))
        for p in (parameters_of(maker) or {}).values()
        if p.kind not in variadic
    ]


def _hints(maker: Any) -> dict[str, Any]:
    """The annotations, evaluated; none if one of them cannot be."""
    function = attribute_of(maker, "__init__") if inspect.isclass(maker) else maker
    try:
        return typing.get_type_hints(function)
    except Exception:  # such as a name that is only imported for type checkers
        return {}


def _is_required(p: Parameter) -> bool:
    return p.default is Parameter.empty


def _data_parameter(parameters: list[Parameter]) -> Parameter | None:
    """The parameter for the data: by its usual name, else the first that must be passed."""
    required = [p for p in parameters if _is_required(p)] or parameters
    named = [p for p in required if _DATA.fullmatch(p.name.lower())]
    return next(iter(named or required), None)


def _subsets(switches: list[str]) -> Iterator[tuple[str, ...]]:
    """One switch, none, then two or more at once."""
    yield from ((switch,) for switch in switches)
    yield ()
    for size in range(2, len(switches) + 1):
        yield from combinations(switches, size)


def _switches(optional: Iterable[Parameter], modules: dict[str, Any]) -> list[str]:
    """Return keyword arguments that may turn a constant into a leaf, the likeliest first."""
    likely, others = [], []
    for p in optional:
        lower = p.name.lower()
        if _SWITCH.search(lower) and not _NO_SWITCH.fullmatch(lower) and _may_be_bool(p):
            likely.append(f"{p.name}={'const' not in lower}")
        elif isinstance(p.default, bool):
            others.append(f"{p.name}={not p.default}")
        else:
            members = [text for text in _members(p, modules) if text is not None]
            others += [f"{p.name}={text}" for text in members]
    return [*likely, *others]


def _may_be_bool(p: Parameter) -> bool:
    return p.default is None or isinstance(p.default, bool)


# ----- Values for parameters -----


def _literals(p: Parameter, modules: dict[str, Any]) -> list[str]:
    """Return values for a parameter that must be passed, the likeliest first."""
    if members := _members(p, modules):
        return members
    types, lower = _types(p.annotation), p.name.lower()
    rules: tuple[tuple[bool, list[str]], ...] = (
        (bool in types or bool(_SWITCH.search(lower)), ["True", "False"]),
        (str in types or bool(_TEXT.fullmatch(lower)), ["'x'"]),
        ("shape" in lower, ["data.shape"]),
        ("dtype" in lower, ["np.float64", "'float64'"]),
        ("device" in lower, ["'cpu'"]),
        (bool(_PARENTS.fullmatch(lower)), ["()", "[]", "None"]),
        (int in types or float in types, ["0", "1"]),
    )
    usual = next((values for applies, values in rules if applies), [])
    return [*usual, *(text for text in ("None", "'x'", "()", "0") if text not in usual)][:4]


def _members(p: Parameter, modules: dict[str, Any]) -> list[str]:
    """Return the members of an enumeration, or the values of a Literal, except the default."""
    found = []
    default = p.default
    for kind in (*_types(p.annotation), type(default)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            owner = _expression_of(kind, modules)
            members = sorted(kind, key=lambda item: not _LEAF.search(item.name.lower()))
            found += [f"{owner}.{item.name}" for item in members if item is not default]
        elif typing.get_origin(kind) is Literal:
            found += [repr(value) for value in typing.get_args(kind) if value != default]
    return list(dict.fromkeys(found))


def _types(annotation: Any) -> tuple[Any, ...]:
    """An annotation, or the parts of a union."""
    if typing.get_origin(annotation) is Literal:
        return (annotation,)
    return typing.get_args(annotation) or (annotation,)


def _expression_of(kind: type, modules: dict[str, Any]) -> str:
    """Return the expression for a class: its name where the engine imports it."""
    for prefix, module in modules.items():
        if attribute_of(module, kind.__name__) is kind:
            return f"{prefix}{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"
