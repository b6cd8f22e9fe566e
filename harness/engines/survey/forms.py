"""What may be said to an engine: the forms in which engines are usually written."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.adapter.calling import attribute_of, attributes_of, takes_nothing
from harness.engines.engine import Dialect

MAKERS = ("tensor", "variable", "Variable", "parameter", "Parameter", "array", "as_tensor")
USUAL = ("Tensor", "Variable", "Value", "Var", "Node", "Parameter")
OF_ARRAYS = ("shape", "sum", "reshape", "T", "transpose", "__matmul__", "matmul", "ndim")
FUNCTIONAL = ("make_vjp", "vjp", "value_and_grad", "grad")


def classes_of(module: ModuleType) -> list[str]:
    """The classes of a module from which one can walk back."""
    found = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and not str(name).startswith("_")
        and walks_of(value, strict=True)
    ]
    places = {name: place for place, name in enumerate(USUAL)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))


def walks_of(target: Any, *, strict: bool = False) -> list[str]:
    """The methods that may be the walk back."""
    names = [name for name in attributes_of(target) if not name.startswith("__")]
    likely = [name for name in names if re.search(r"backward|backprop|backpass", name)]
    found = sorted(likely, key=lambda name: (name != "backward", name.startswith("_"), name))
    if strict:
        return [name for name in found if not name.startswith("_")]
    return found or [name for name in names if re.search(r"back|grad", name)]


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def leaves(said: str, name: str | None, target: Any, modules: dict[str, Any]) -> list[str]:
    """The class itself, then functions that may make one of it."""
    if said:
        return [said]
    makers = {name: target} | {
        f"{prefix}{maker}": found
        for prefix, module in modules.items()
        for maker in MAKERS
        if callable(found := attribute_of(module, maker)) and found is not target
    }
    return [form for spelled, maker in makers.items() for form in _calls_of(spelled, maker)]


def _calls_of(name: str | None, maker: Any) -> list[str]:
    flags = []
    for each in _parameters(maker):
        if "grad" in each.lower() and each.lower() not in ("grad", "grad_fn", "gradient"):
            flags.append(f"{each}=True")
        if "const" in each.lower():
            flags.append(f"{each}=False")
    ends = [*(f", {flag}" for flag in flags), ""]
    return [f"{name}({data}{end})" for data in ("data", "data.tolist()") for end in ends]


def values(said: str, t: Any) -> list[str]:
    """How to read what a tensor holds."""
    if said:
        return [said]
    usual = ["data", "value", "val", "array", "values", "_data", "_value", "item()", "numpy()"]
    usual += ["tolist()"]
    forms = [f"t.{name}" for name in usual if hasattr(t, name.removesuffix("()"))]
    own = vars(t) if hasattr(t, "__dict__") else {}
    forms += [f"t.{name}" for name in own if f"t.{name}" not in forms]
    return [*forms, *(f"{form}.data" for form in forms[:3])]


def gradients(said: str, t: Any, value: str) -> list[str]:
    """How to read a leaf's gradient, once it has one."""
    if said:
        return [said]
    own = [
        n
        for n in attributes_of(t)
        if re.search(r"grad|adj|deriv|cotan", n.lower()) and n[:2] != "__"
    ]
    names = sorted(own, key=lambda name: (name != "grad", name.startswith("_"), name))
    within = value.removeprefix("t")
    forms = []
    for name in names:
        try:
            called = callable(getattr(t, name))
        except Exception:
            continue
        if called and (re.search("backward|zero", name) or not takes_nothing(getattr(t, name))):
            continue
        place = f"t.{name}()" if called else f"t.{name}"
        forms += [place, f"{place}{within}"]
    return forms


_MAY_BE_GRADIENT = re.compile(r"(?!__).*(grad|adj|deriv|cotan)", re.I)


def guarded(gradient: str) -> str:
    """None stays None, where the gradient is inside of something."""
    place = re.match(r"(t\.\w+)(?:\.|\()", gradient)
    if place is None or gradient.startswith(f"{place[1]}()"):
        return gradient
    return f"None if {place[1]} is None else {gradient}"


def uses(dialect: Dialect, leaf: str, x: NumericArray) -> list[tuple[str, NumericArray]]:
    """Programs of a tensor, each with its derivative at `x`.

    The last use it only once, for an engine that loses what it has when a gradient arrives again.
    """
    square, twice = 2 * x, np.full_like(x, 2.0)
    forms = [("t * t", square), ("t + t", twice), ("t - -t", twice)]
    modules = (dialect.module, *dialect.functions)
    forms += [(f"{function}(t, t)", square) for function in _find(modules, "mul", "multiply")]
    forms += [(f"{function}(t, t)", twice) for function in _find(modules, "add")]
    other = re.sub(r"\bdata\b", f"np.full({x.shape}, 3.0)", leaf)
    forms += [(f"t * {other}", np.full_like(x, 3.0)), (f"t + {other}", np.ones_like(x))]
    return forms


def _find(modules: Iterable[str], *names: str) -> list[str]:
    """How functions of these names can be spelled."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in names
        if callable(attribute_of(sys.modules.get(module), name))
    ]


def backwards(said: str, leaf: str, target: Any, modules: Iterable[str]) -> list[str]:
    """How to walk back with a cotangent, or by the sum of a weighted output where none is taken."""
    if said:
        return [said]
    asks = re.sub(r"\bdata\b", "cotangent", leaf)
    forms = []
    for constant in dict.fromkeys((re.sub(r", \w+=\w+\)$", ")", asks), asks)):
        forms += _with_constant(constant, target, list(modules))
    return forms


def _with_constant(constant: str, target: Any, modules: list[str]) -> list[str]:
    weighed = [f"(t * {constant})"]
    weighed += [f"{name}(t, {constant})" for name in _find(modules, "mul", "multiply")]
    weighed.append(f"(t / {constant.replace('cotangent', '(1 / cotangent)')})")
    forms = []
    for method in walks_of(target):
        forms += [f"t.{method}(cotangent)", f"t.{method}({constant})"]
        for each in _parameters(attribute_of(target, method)):
            if re.search(r"grad|seed|cotangent|upstream|dy|dout", each.lower()):
                forms += [f"t.{method}({each}=cotangent)", f"t.{method}({each}={constant})"]
        for each in weighed:
            sums = [f"{name}({each})" for name in _find(modules, "sum", "reduce_sum")]
            forms += [f"{each}.sum().{method}()", *(f"{one}.{method}()" for one in sums)]
            forms.append(f"{each}.{method}()")
    for name in modules:
        for walk in attributes_of(sys.modules[name]):
            if "backward" in walk and inspect.isfunction(attribute_of(sys.modules[name], walk)):
                forms += [f"{name}.{walk}(t, cotangent)"]
                forms += [f"{name}.{walk}({each}.sum())" for each in weighed[:1]]
    return forms


def from_sums(target: Any, modules: Iterable[str]) -> list[str]:
    """How to walk back from the sum of a tensor, with no cotangent."""
    sums = ["t.sum()", *(f"{name}(t)" for name in _find(modules, "sum", "reduce_sum"))]
    return [f"{each}.{method}()" for each in sums for method in walks_of(target)]


def pulls(name: str) -> list[str]:
    """How to get the output of a function and what pulls a cotangent back."""
    one = "(lambda out, back: (out, lambda c: back(c)[0]))"
    forms = [f"{name}(function)(data)", f"{name}(function, data)"]
    forms = [f"{form}{order}" for form in forms for order in ("[::-1]", "")]
    forms += [f"{one}(*{name}(function, data){order})" for order in ("", "[::-1]")]
    # The gradient of a number: of the weighed output. A lambda sees no locals, and is given them.
    for weighed in ("(f(t) * c).sum()", "np.sum(f(t) * c)"):
        back = f"lambda c, f=function, x=data: {name}(lambda t: {weighed})(x)"
        forms += [f"(function(data), {back}{part})" for part in ("", "[1]", "[0]")]
    return forms
