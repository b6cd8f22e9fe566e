"""Candidate expressions that make a leaf, from signatures, and that read its data and gradient."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from inspect import Parameter
from itertools import islice, product
from typing import Any

from harness.engines.calling import (
    attribute_of,
    attributes_of,
    parameters_of,
    takes_nothing,
)
from harness.engines.library import substituted

MAKERS = ("tensor", "variable", "Variable", "parameter", "Parameter", "array", "as_tensor", "leaf")
"""Usual names of functions that make a leaf."""

MOST = 48
"""How many expressions for a leaf are tried on an engine."""

_METHODS = re.compile(
    r"from_(numpy|array|data|list)|as_(leaf|parameter)|leaf|param(eter)?|variable"
)
_DATA = re.compile(r"_?(data|values?|vals?|array|arr|x|content|init|initial|elements|numbers)")
_SWITCH = re.compile(r"grad|track|train|leaf|learn|diff|retain|keep|param|variable|record|const")
_NO_SWITCH = re.compile(r"grad|grad_fn|gradient")
_PARENTS = re.compile(
    r"_?(parents?|child(ren)?|prev|inputs?|args|operands|creators?|edges|sources|deps|ctx|rules?)"
)
_TEXT = re.compile(r"(\w+_)?(label|name|id|tag|key|title|symbol|op)")
_IS_TEXT = re.compile(r"(typing\.)?(Optional\[)?(str|bool)(\]|\s\|\sNone)?")
"""Annotations of what is not a number."""

_IS_NUMBER = re.compile(r"\b(int|float|list|ndarray|ArrayLike)\b")

_SETS = re.compile(r"_?(set|assign|feed|fill)(_?(val|value|values|data|array))?_?")


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
    forms = []
    if inspect.isclass(target):
        makers |= {f"{name}.{method}": made for method, made in _class_methods(target)}
        forms = list(_set_afterwards(str(name), target))
    forms += [
        form
        for value, most in (("data", 12), ("data.tolist()", 6))
        for called, maker in makers.items()
        for form in islice(_calls_of(str(called), maker, value), most)
    ]
    return forms[:MOST]


def _set_afterwards(name: str, target: type) -> Iterator[str]:
    """Yield leaves that are made without data and whose data a method sets: `v.set_val(data)`."""
    parameters = _parameters(target)
    if _data_parameter(parameters):
        return
    required = [p for p in parameters if p.default is Parameter.empty]
    named = required or [p for p in parameters if _TEXT.fullmatch(p.name.lower())]
    methods = [m for m in attributes_of(target) if _SETS.fullmatch(m)]
    for method in sorted(methods, key=lambda m: (m.startswith("_"), m)):
        for chosen in (named, required) if named != required else (required,):
            made = f"{name}({', '.join(f'{p.name}={_literals(p)[0]}' for p in chosen)})"
            yield f"(lambda t: (t.{method}(data), t)[-1])({made})"


def switched_on(leaf: str, t: Any) -> Iterator[str]:
    """Yield expressions that make the same leaf and then ask for its gradient.

    `t` is a leaf that was made by the expression.
    """
    own = vars(t) if hasattr(t, "__dict__") else {}
    for name, value in own.items():
        if value is False and _SWITCH.search(name):
            yield f"(lambda t: (setattr(t, {name!r}, True), t)[-1])({leaf})"
    for name in attributes_of(type(t)):
        if re.fullmatch(r"(set_)?requires_?grad_?|(retain|keep|enable)_grad_?|watch|track_?", name):
            yield f"(lambda t: (t.{name}(), t)[-1])({leaf})"


def _class_methods(target: type) -> Iterator[tuple[str, Any]]:
    for name in attributes_of(target):
        static = inspect.getattr_static(target, name, None)
        if isinstance(static, classmethod | staticmethod) and _METHODS.fullmatch(name):
            yield name, getattr(target, name)


def _calls_of(name: str, maker: Any, value: str) -> Iterator[str]:
    """Yield calls with this expression for the data: with one switch, with all, then with none."""
    parameters = _parameters(maker)
    data = _data_parameter(parameters) or next(iter(parameters), None)
    if data and _IS_TEXT.fullmatch(_annotation(data)):
        return
    required = [p for p in parameters if p is not data and p.default is Parameter.empty]
    options = [[f"{p.name}={text}" for text in _literals(p)] for p in required]
    choices = sorted(product(*map(enumerate, options)), key=lambda pairs: sum(i for i, _ in pairs))
    first = not parameters or data is parameters[0]
    passed = value if first or data is None else f"{data.name}={value}"
    optional = [p for p in parameters if p is not data and p not in required]
    optional.sort(key=lambda p: not _SWITCH.search(p.name.lower()))
    switches = [switch for p in optional if (switch := _switch(p))]
    alone = [[switch] for switch in switches]
    together = [switches] if len(switches) > 1 else []
    for flags in (*alone[:1], *together, *alone[1:], []):
        for chosen in choices:
            yield f"{name}({', '.join((passed, *(text for _, text in chosen), *flags))})"


def _parameters(maker: Any) -> list[Parameter]:
    variadic = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [p for p in (parameters_of(maker) or {}).values() if p.kind not in variadic]


def _data_parameter(parameters: list[Parameter]) -> Parameter | None:
    """The parameter for the data: by its usual name, else the first that must be passed.

    It is never one whose annotation or name says that it is a text or a switch.
    """
    possible = [p for p in parameters if not _is_text(p)]
    required = [p for p in possible if p.default is Parameter.empty] or possible
    named = [p for p in required if _DATA.fullmatch(p.name.lower())]
    return next(iter(named or required), None)


def takes_data(kind: type) -> bool:
    """Whether a parameter's name or annotation says that a class is made from data."""
    p = _data_parameter(_parameters(kind))
    return p is not None and bool(
        _DATA.fullmatch(p.name.lower()) or _IS_NUMBER.search(_annotation(p))
    )


def _is_text(p: Parameter) -> bool:
    annotation = _annotation(p)
    is_named_so = _TEXT.fullmatch(p.name.lower()) and not _IS_NUMBER.search(annotation)
    return bool(is_named_so or _IS_TEXT.fullmatch(annotation))


def _annotation(p: Parameter) -> str:
    """The name of a parameter's annotation; empty if it has none."""
    if p.annotation is Parameter.empty:
        return ""
    return p.annotation.__name__ if isinstance(p.annotation, type) else str(p.annotation)


def _switch(p: Parameter) -> str:
    """Return the keyword argument that may turn a constant into a leaf; "" for another one."""
    name = p.name.lower()
    if _SWITCH.search(name) and not _NO_SWITCH.fullmatch(name):
        may_be_bool = p.default is None or isinstance(p.default, bool)
        return f"{p.name}={'const' not in name}" if may_be_bool else ""
    return f"{p.name}={not p.default}" if isinstance(p.default, bool) else ""


def _literals(p: Parameter) -> list[str]:
    """Return values for a parameter that must be passed, the likeliest first."""
    name, annotation = p.name.lower(), _annotation(p)
    rules: tuple[tuple[bool, list[str]], ...] = (
        (annotation == "str" or bool(_TEXT.fullmatch(name)), ["'x'"]),
        (annotation == "bool" or bool(_SWITCH.search(name)), ["True", "False"]),
        ("shape" in name, ["data.shape"]),
        ("dtype" in name, ["np.float64", "'float64'"]),
        ("device" in name, ["'cpu'"]),
        (bool(_PARENTS.fullmatch(name)), ["()", "[]", "None"]),
        (annotation in ("int", "float"), ["0", "1"]),
    )
    usual = next((values for applies, values in rules if applies), [])
    return [*usual, *(text for text in ("None", "'x'", "()", "0") if text not in usual)][:4]


# ----- Reading a leaf -----


_EVALUATES = re.compile(
    r"_?(eval(uate)?|forward(_pass)?|compute|realize|get_?(val(ue)?|data)|val(ue)?)"
)


def values(declared: str, t: Any) -> list[str]:
    """Return expressions that may read the data of tensor `t`."""
    if declared:
        return [declared]
    usual = ["data", "value", "val", "array", "values", "_data", "_value", "item()", "numpy()"]
    usual += ["tolist()"]
    forms = [f"t.{name}" for name in usual if hasattr(t, name.removesuffix("()"))]
    own = vars(t) if hasattr(t, "__dict__") else {}
    forms += [f"t.{name}" for name in own if f"t.{name}" not in forms]
    parts = [f"{form}.data" for form in forms[:3]]
    parts += [f"np.reshape({form}.data, {form}.shape)" for form in forms[:3]]
    methods = [
        f"t.{name}()"
        for name in ordinary_names(t)
        if _EVALUATES.fullmatch(name)
        and callable(method := attribute_of(t, name))
        and takes_nothing(method)
    ]
    return [*forms, *parts, *methods]


def filled(readings: list[str]) -> list[str]:
    """Return these expressions, and attributes of a lazy engine that are evaluated if necessary.

    A method that evaluates may change more than the data, such as the gradients, so it is
    called only where the attribute is empty.
    """
    methods = [reading for reading in readings if evaluates(reading)]
    attributes = [reading for reading in readings if "(" not in reading][:1]
    first = [reading for reading in readings if reading not in methods]
    return [
        *first,
        *(f"{m} if {a} is None else {a}" for a in attributes for m in methods),
        *methods,
    ]


def evaluates(reading: str) -> bool:
    """Whether an expression calls a method that a lazy engine may have for evaluation."""
    return reading.endswith("()") and bool(_EVALUATES.fullmatch(reading[2:-2]))


def computes(reading: str) -> bool:
    """Whether an expression calls a method, which may compute what it returns."""
    return bool(re.search(r"\bt\.\w+\(\)", reading))


GRADIENT = re.compile("grad|adj|deriv|^_?der$|cotan")


def gradients(declared: str, t: Any, value: str, fresh: Any = None) -> list[str]:
    """Return expressions that may read the gradient of leaf `t` after a backward pass.

    If no attribute has a usual name, they are the ones that differ from those of `fresh`, a leaf
    that took part in no backward pass.
    """
    if declared:
        return [declared]
    attribute = re.search(r"\bt\.(\w+)(?!\w|\()", value)
    short = attribute[1].strip("_") if attribute else "data"
    likely = re.compile(rf"{GRADIENT.pattern}|^_?d_?{re.escape(short)}$|^_?(delta|dout|dx|g)$")
    own = [name for name in ordinary_names(t) if likely.search(name.lower())]
    names = sorted(own, key=lambda name: (name != "grad", name.startswith("_"), name))
    forms: list[str] = []
    for name in names or _changed(t, fresh):
        try:
            called = callable(getattr(t, name))
        except Exception:
            continue
        if called and (re.search("backward|zero", name) or not takes_nothing(getattr(t, name))):
            continue
        gradient = f"t.{name}()" if called else f"t.{name}"
        forms += [gradient, substituted(value, "t", gradient)]
        if attribute:  # the gradient is stored as the data is
            forms.append(re.sub(rf"\b{re.escape(attribute[0])}\b", gradient, value))
    return list(dict.fromkeys(forms))


def _changed(t: Any, fresh: Any) -> list[str]:
    """The attributes that differ between two tensors of the same data."""
    own, others = (vars(x) if hasattr(x, "__dict__") else {} for x in (t, fresh))
    try:
        return [name for name, value in own.items() if repr(value) != repr(others.get(name))]
    except Exception:  # a foreign `__repr__` may fail in any way
        return []


def guarded(gradient: str) -> str:
    """The expression, with a guard if it reads the data of an attribute that may be None."""
    attribute = re.search(r"\bt\.\w+", gradient)
    if attribute is None or gradient == attribute[0] or f"{attribute[0]}()" in gradient:
        return gradient
    return f"None if {attribute[0]} is None else {gradient}"


def ordinary_names(target: Any) -> list[str]:
    """The names of all attributes except special ones."""
    return [name for name in attributes_of(target) if not name.startswith("__")]
