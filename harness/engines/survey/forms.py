"""Candidate expressions: the interfaces that engines usually have."""

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
ARRAY_ATTRIBUTES = ("shape", "sum", "reshape", "T", "transpose", "__matmul__", "matmul", "ndim")
FUNCTIONAL = ("make_vjp", "vjp", "value_and_grad", "grad")


def classes_of(module: ModuleType) -> list[str]:
    """The public classes of a module with a public backward method, usual names first."""
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and not str(name).startswith("_")
        and any(not method.startswith("_") for method in _backward_methods(value))
    ]
    ranks = {name: rank for rank, name in enumerate(USUAL)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def backward_methods(target: Any) -> list[str]:
    """The methods that may run the backward pass, the likeliest first."""
    return _backward_methods(target) or [
        name for name in _public_or_private(target) if re.search(r"back|grad", name)
    ]


def _backward_methods(target: Any) -> list[str]:
    likely = [
        name
        for name in _public_or_private(target)
        if re.search(r"backward|backprop|backpass", name)
    ]
    return sorted(likely, key=lambda name: (name != "backward", name.startswith("_"), name))


def _public_or_private(target: Any) -> list[str]:
    """The names of all attributes except special ones."""
    return [name for name in attributes_of(target) if not name.startswith("__")]


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


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
    return [form for called, maker in makers.items() for form in _calls_of(called, maker)]


def _calls_of(name: str | None, maker: Any) -> list[str]:
    flags = []
    for parameter in _parameters(maker):
        lower = parameter.lower()
        if "grad" in lower and lower not in ("grad", "grad_fn", "gradient"):
            flags.append(f"{parameter}=True")
        if "const" in lower:
            flags.append(f"{parameter}=False")
    ends = [*(f", {flag}" for flag in flags), ""]
    return [f"{name}({data}{end})" for data in ("data", "data.tolist()") for end in ends]


def values(declared: str, t: Any) -> list[str]:
    """Return expressions that may read the data of tensor `t`."""
    if declared:
        return [declared]
    usual = ["data", "value", "val", "array", "values", "_data", "_value", "item()", "numpy()"]
    usual += ["tolist()"]
    forms = [f"t.{name}" for name in usual if hasattr(t, name.removesuffix("()"))]
    own = vars(t) if hasattr(t, "__dict__") else {}
    forms += [f"t.{name}" for name in own if f"t.{name}" not in forms]
    return [*forms, *(f"{form}.data" for form in forms[:3])]


def gradients(declared: str, t: Any, value: str) -> list[str]:
    """Return expressions that may read the gradient of leaf `t` after a backward pass."""
    if declared:
        return [declared]
    own = [
        name for name in _public_or_private(t) if re.search(r"grad|adj|deriv|cotan", name.lower())
    ]
    names = sorted(own, key=lambda name: (name != "grad", name.startswith("_"), name))
    data = value.removeprefix("t")
    forms = []
    for name in names:
        try:
            called = callable(getattr(t, name))
        except Exception:
            continue
        if called and (re.search("backward|zero", name) or not takes_nothing(getattr(t, name))):
            continue
        gradient = f"t.{name}()" if called else f"t.{name}"
        forms += [gradient, f"{gradient}{data}"]
    return forms


def guarded(gradient: str) -> str:
    """The expression, with a guard if it reads the data of an attribute that may be None."""
    attribute = re.match(r"(t\.\w+)(?:\.|\()", gradient)
    if attribute is None or gradient.startswith(f"{attribute[1]}()"):
        return gradient
    return f"None if {attribute[1]} is None else {gradient}"


def uses(dialect: Dialect, leaf: str, x: NumericArray) -> list[tuple[str, NumericArray]]:
    """Return programs of a tensor `t`, each with its derivative at `x`.

    The last ones use it only once, for engines that overwrite a gradient instead of adding to it.
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
    """The functions of these names in the modules, as expressions."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in names
        if callable(attribute_of(sys.modules.get(module), name))
    ]


def backwards(declared: str, leaf: str, target: Any, modules: Iterable[str]) -> list[str]:
    """Return expressions for the backward pass with a cotangent, or from a weighted sum."""
    if declared:
        return [declared]
    differentiable = re.sub(r"\bdata\b", "cotangent", leaf)
    without_flag = re.sub(r", \w+=\w+\)$", ")", differentiable)
    forms = []
    for constant in dict.fromkeys((without_flag, differentiable)):
        forms += _with_constant(constant, target, list(modules))
    return forms


def _with_constant(constant: str, target: Any, modules: list[str]) -> list[str]:
    weighted = [f"(t * {constant})"]
    weighted += [f"{name}(t, {constant})" for name in _find(modules, "mul", "multiply")]
    weighted.append(f"(t / {constant.replace('cotangent', '(1 / cotangent)')})")
    forms = []
    for method in backward_methods(target):
        forms += [f"t.{method}(cotangent)", f"t.{method}({constant})"]
        for name in _parameters(attribute_of(target, method)):
            if re.search(r"grad|seed|cotangent|upstream|dy|dout", name.lower()):
                forms += [f"t.{method}({name}=cotangent)", f"t.{method}({name}={constant})"]
        for output in weighted:
            forms += [f"{scalar}.{method}()" for scalar in (*_sums(output, modules), output)]
    for name in modules:
        for function in attributes_of(sys.modules[name]):
            is_function = inspect.isfunction(attribute_of(sys.modules[name], function))
            if "backward" in function and is_function:
                forms.append(f"{name}.{function}(t, cotangent)")
                forms.append(f"{name}.{function}({weighted[0]}.sum())")
    return forms


def from_sums(target: Any, modules: Iterable[str]) -> list[str]:
    """Return expressions for the backward pass from the sum of a tensor, without a cotangent."""
    sums = _sums("t", modules)
    return [f"{scalar}.{method}()" for scalar in sums for method in backward_methods(target)]


def _sums(tensor: str, modules: Iterable[str]) -> list[str]:
    functions = _find(modules, "sum", "reduce_sum")
    return [f"{tensor}.sum()", *(f"{name}({tensor})" for name in functions)]


def pulls(name: str) -> list[str]:
    """Return expressions for the pair of a function's output and its VJP."""
    first = "(lambda out, back: (out, lambda c: back(c)[0]))"
    forms = [f"{name}(function)(data)", f"{name}(function, data)"]
    forms = [f"{form}{order}" for form in forms for order in ("[::-1]", "")]
    forms += [f"{first}(*{name}(function, data){order})" for order in ("", "[::-1]")]
    # An engine that differentiates only scalars gets the weighted sum of the output. Names are
    # passed to the lambda as defaults, since `eval` does not let it see local variables.
    for weighted in ("(f(t) * c).sum()", "np.sum(f(t) * c)"):
        back = f"lambda c, f=function, x=data: {name}(lambda t: {weighted})(x)"
        forms += [f"(function(data), {back}{part})" for part in ("", "[1]", "[0]")]
    return forms
