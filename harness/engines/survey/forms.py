"""Candidate expressions: the interfaces that engines usually have."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from harness.engines.calling import (
    OPERATORS,
    attribute_of,
    attributes_of,
    parameters_of,
    positional,
)
from harness.engines.engine import Dialect
from harness.engines.library import names_in, substituted
from harness.engines.survey.leaves import GRADIENT, evaluates, ordinary_names, takes_data

USUAL = ("Tensor", "Variable", "Value", "Var", "Node", "Parameter", "Array", "Matrix", "Scalar")
ARRAY_ATTRIBUTES = ("shape", "sum", "reshape", "T", "transpose", "__matmul__", "matmul", "ndim")
FUNCTIONAL = ("make_vjp", "vjp", "value_and_grad", "grad")


# ----- Classes of tensors -----


def targets_of(module: ModuleType, is_own: Callable[[Any], bool]) -> list[str]:
    """The classes of tensors that a module may have, or its functions that differentiate.

    First come classes with a backward method, then functions, then classes with arithmetic, then
    others if a function of the module runs a backward pass.
    """
    ranks = {name: rank for rank, name in enumerate(USUAL)}
    classes = sorted(
        (
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and not str(name).startswith("_") and is_own(value)
        ),
        key=lambda name: (
            ranks.get(name, len(ranks)),
            not takes_data(getattr(module, name)),
            name,
        ),
    )

    def those(accepts: Callable[[type], bool]) -> list[str]:
        return [name for name in classes if accepts(getattr(module, name))]

    names = [
        *those(lambda kind: any(not m.startswith("_") for m in named_backward(kind))),
        *(name for name in FUNCTIONAL if callable(attribute_of(module, name))),
        *those(lambda kind: hasattr(kind, "__add__") or hasattr(kind, "__mul__")),
        *(classes if _differentiating([module.__name__]) else ()),
    ]
    return list(dict.fromkeys(names))


def backward_methods(target: Any) -> list[str]:
    """The methods that may run the backward pass, the likeliest first."""
    return named_backward(target) or [
        name for name in ordinary_names(target) if re.search(r"back|grad|^_?reverse", name)
    ]


def named_backward(target: Any) -> list[str]:
    """The methods whose names say that they run a backward pass."""
    likely = [
        name for name in ordinary_names(target) if re.search(r"backward|backprop|backpass", name)
    ]
    return sorted(likely, key=lambda name: (name != "backward", name.startswith("_"), name))


_MISNAMED = {
    "__div__": "__truediv__",
    "__divide__": "__truediv__",
    "__dot__": "__matmul__",
    "__minus__": "__sub__",
    "__multiply__": "__mul__",
    "__negative__": "__neg__",
    "__plus__": "__add__",
    "__power__": "__pow__",
    "__rdiv__": "__rtruediv__",
    "__rminus__": "__rsub__",
    "__subtract__": "__sub__",
    "__times__": "__mul__",
}


def misnamed_operators(target: Any) -> dict[str, str]:
    """The methods that no operator calls, and the name under which one would."""
    return {
        name: special
        for name, special in _MISNAMED.items()
        if hasattr(target, name) and not hasattr(target, special)
    }


# ----- Backward passes -----


@dataclass(frozen=True)
class BackwardForm:
    """An expression that may run the backward pass, and where the gradients are afterwards."""

    expression: str
    gradients: Literal["stored", "returned", "moved"] = "stored"
    """In the leaves, in its value, or in what it changes in the data of the leaves."""


def backward_forms(
    declared: Dialect, leaf: str, target: Any, modules: list[str], readings: list[str]
) -> list[BackwardForm]:
    """Return backward passes, the likeliest first.

    They start with a cotangent or from a weighted sum, and leave the gradients in the leaves, or
    return those of given leaves. `readings` read the data of a tensor.
    """
    if backward := declared.backward:
        if "leaves" not in names_in(backward):
            return [BackwardForm(backward)]
        moved = "before" in names_in(declared.gradient)
        stored = declared.gradient and not moved
        return [BackwardForm(backward, "moved" if moved else "stored" if stored else "returned")]
    constants = {constant: _scalars(constant, target, modules) for constant in _constants(leaf)}
    if not any(constants.values()):
        constants = {c: _squares(c, target, modules, readings[0]) for c in constants}
    calls = [
        call for c, scalars in constants.items() for call in _stored(c, scalars, target, modules)
    ]
    forms = [BackwardForm(call) for call in (*calls, *_evaluated(calls, readings))]
    calls = [
        call for c, scalars in constants.items() for call in _returned(c, scalars, target, modules)
    ]
    return list(dict.fromkeys([*forms, *(BackwardForm(call, "returned") for call in calls)]))


def backward_of_numbers(
    declared: Dialect, target: Any, modules: list[str], readings: list[str]
) -> list[BackwardForm]:
    """Return backward passes of an engine of single numbers, which start with 1."""
    if declared.backward:
        return [BackwardForm(declared.backward)]
    calls = [(attribute_of(target, name), f"t.{name}(", "") for name in backward_methods(target)]
    calls += [(_function(name), f"{name}(t", ", ") for name in _differentiating(modules)]
    forms = [f"{start})" for function, start, _ in calls if _takes(function, 1)]
    forms += [f"{start}{comma}1.0)" for function, start, comma in calls if _takes(function, 2)]
    return [BackwardForm(form) for form in (*forms, *_evaluated(forms, readings))]


def _evaluated(calls: Iterable[str], readings: Iterable[str]) -> list[str]:
    """The calls of methods, each after the output of a lazy engine was evaluated."""
    methods = filter(evaluates, readings)
    return [
        f"(lambda t: ({method}, t.{call.removeprefix(f'{receiver}.')}))({receiver})"
        for method in methods
        for call in calls
        if (receiver := _receiver(call))
    ]


def _receiver(call: str) -> str:
    """What a method is called on; empty for the call of a function."""
    function = getattr(ast.parse(call, mode="eval").body, "func", None)
    ends = getattr(getattr(function, "value", None), "end_col_offset", 0)
    receiver = call[:ends]
    return receiver if "t" in names_in(receiver) else ""


def computes_on_reading(target: Any, modules: Iterable[str]) -> bool:
    """Whether a method may compute a gradient when it is read, and nothing runs a backward pass."""
    reads = any(_takes(attribute_of(target, name), 1) for name in backward_methods(target))
    return reads and not named_backward(target) and not _differentiating(modules)


def seeded(t: Any) -> Iterator[str]:
    """Yield assignments of 1 to what may be the gradient of a number like `t`."""
    for name, value in vars(t).items():
        if GRADIENT.search(name.lower()) and (value is None or value == 0):
            yield f"setattr(t, {name!r}, 1.0)"


def _constants(leaf: str) -> list[str]:
    """Expressions for the cotangent as a tensor, first without the flags of a leaf."""
    differentiable = substituted(leaf, "data", "cotangent")
    without_flags = re.sub(r"(, \w+=(True|False))+\)$", ")", differentiable)
    return list(dict.fromkeys((without_flags, differentiable)))


def _scalars(constant: str, target: Any, modules: list[str]) -> list[str]:
    """The weighted sum of the output, and the weighted output for engines that add it up."""
    divisor = substituted(constant, "cotangent", "(1 / cotangent)")
    outputs = [
        *_applied("mul", "*", constant, target, modules),
        *_applied("truediv", "/", divisor, target, modules),
    ]
    return [scalar for output in outputs for scalar in (*_sums(output, target, modules), output)]


def _squares(constant: str, target: Any, modules: list[str], value: str) -> list[str]:
    """Expressions whose derivative is the cotangent, in an engine that cannot multiply or divide.

    Each is the square of the output plus a constant; the sum equals half of the cotangent.
    """
    if not (hasattr(target, "__add__") and hasattr(target, "__pow__")):
        return []
    other = substituted(constant, "cotangent", f"(cotangent / 2 - {value})")
    square = f"((t + {other}) ** 2)"
    return [*_sums(square, target, modules), square]


def _applied(
    operator: str, symbol: str, other: str, target: Any, modules: list[str]
) -> Iterator[str]:
    """The output and a tensor, combined by an operator, or else by a method or a function."""
    if hasattr(target, f"__{operator}__"):
        yield f"(t {symbol} {other})"
        return
    for name in OPERATORS[operator]:
        if hasattr(target, name):
            yield f"t.{name}({other})"
        yield from (f"{function}(t, {other})" for function in _functions(modules, name))


def _sums(tensor: str, target: Any, modules: list[str]) -> Iterator[str]:
    if _takes(attribute_of(target, "sum"), 1):
        yield f"{tensor}.sum()"
    for name in ("sum", "reduce_sum", "tsum"):
        yield from (f"{function}({tensor})" for function in _functions(modules, name))


def _functions(modules: Iterable[str], name: str) -> list[str]:
    """The functions of this name in the modules, as expressions."""
    return [
        f"{module}.{name}"
        for module in modules
        if callable(attribute_of(sys.modules.get(module), name))
    ]


def _takes(function: Any, number: int) -> bool:
    """Whether a function can be called with this number of positional arguments."""
    if not callable(function):
        return False
    least, most = positional(function)
    return least <= number <= most


def _stored(constant: str, scalars: list[str], target: Any, modules: list[str]) -> Iterator[str]:
    """Backward passes that leave the gradients in the leaves."""
    for name in backward_methods(target):
        method = attribute_of(target, name)
        if _takes(method, 2):
            yield from (f"t.{name}({passed})" for passed in _cotangents(target, method, constant))
        for keyword in list(parameters_of(method) or ())[1:]:
            if _COTANGENT.search(keyword.lower()) and not _NO_COTANGENT.search(keyword.lower()):
                yield from (f"t.{name}({keyword}={passed})" for passed in ("cotangent", constant))
        if _takes(method, 1):
            yield from (f"{scalar}.{name}()" for scalar in scalars)
    for name in _differentiating(modules):
        if _takes(_function(name), 2):
            yield from (f"{name}(t, cotangent)", f"{name}(t, {constant})")
        if _takes(_function(name), 1):
            yield from (f"{name}({scalar})" for scalar in scalars)


def _cotangents(target: Any, method: Any, constant: str) -> list[str]:
    """What a method may be passed as its cotangent, the likeliest first.

    This is an array, a tensor or a list. The method's first parameter decides: by its annotation,
    or by a name that means something else.
    """
    parameters = list((parameters_of(method) or {}).values())[1:]
    if parameters and _NO_COTANGENT.search(parameters[0].name.lower()):
        return []
    annotation = str(parameters[0].annotation) if parameters else ""
    is_tensor = re.search(rf"\b{target.__name__}\b", annotation)
    first = [constant, "cotangent"] if is_tensor else ["cotangent", constant]
    return [*first, "cotangent.tolist()"]


_COTANGENT = re.compile(r"grad|seed|cotangent|upstream|dy|dout")
_NO_COTANGENT = re.compile(r"retain|create|visited|seen|order|topo|graph|leaves|param|verbose")


def _differentiating(modules: Iterable[str]) -> list[str]:
    """The functions whose name says that they differentiate, as expressions."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in attributes_of(sys.modules[module])
        if _DIFFERENTIATES.search(name)
        and not _OTHER_PURPOSE.search(name)
        and inspect.isfunction(attribute_of(sys.modules[module], name))
    ]


def _function(expression: str) -> Any:
    """The function that `_differentiating` found."""
    module, _, name = expression.rpartition(".")
    return attribute_of(sys.modules[module], name)


_DIFFERENTIATES = re.compile(r"back(ward|prop|pass)|grad(s|ients?)?$|derivatives?|differentiate")
_OTHER_PURPOSE = re.compile(r"zero|clip|numer|check|broadcast|no_grad|enable|unary|binary|reset")


def _returned(constant: str, scalars: list[str], target: Any, modules: list[str]) -> Iterator[str]:
    """Backward passes that return the gradients of given leaves, or those of all by leaf."""
    for name in _differentiating(modules):
        function = _function(name)
        if _takes(function, 2):
            yield from (f"{name}({scalar}, leaves)" for scalar in scalars)
        if _takes(function, 3):
            yield from (f"{name}(t, leaves, {passed})" for passed in ("cotangent", constant))
        if _takes(function, 2):
            yield from (f"{name}({scalar}, *leaves)" for scalar in scalars)
            yield from (f"[{name}({scalar}, leaf) for leaf in leaves]" for scalar in scalars)
            yield from (f"{name}(leaves, {scalar})" for scalar in scalars)
            yield f"{_BY_LEAF}({name}(t, cotangent))"
        if _takes(function, 1):
            yield from (f"{_BY_LEAF}({name}({scalar}))" for scalar in scalars)
    for name in backward_methods(target):
        method = attribute_of(target, name)
        if _takes(method, 2):
            yield from (f"{scalar}.{name}(leaves)" for scalar in scalars)
            yield from (f"[{scalar}.{name}(leaf) for leaf in leaves]" for scalar in scalars)
            yield f"{_BY_LEAF}(t.{name}(cotangent))"
        if _takes(method, 1):
            yield from (f"{_BY_LEAF}({scalar}.{name}())" for scalar in scalars)


_BY_LEAF = "(lambda found: [found[leaf] for leaf in leaves])"


# ----- Functions that differentiate functions -----


def pulls(name: str) -> list[str]:
    """Return expressions for the pair of a function's output and its VJP."""
    first = "(lambda out, back: (out, lambda c: back(c)[0]))"
    forms = [f"{name}(function)(data)", f"{name}(function, data)"]
    forms = [f"{form}{order}" for form in forms for order in ("[::-1]", "")]
    forms += [f"{first}(*{name}(function, data){order})" for order in ("", "[::-1]")]
    # An engine that differentiates only scalars gets the weighted sum of the output.
    for weighted in ("(function(t) * c).sum()", "np.sum(function(t) * c)"):
        back = f"lambda c: {name}(lambda t: {weighted})(data)"
        forms += [f"(function(data), {back}{part})" for part in ("", "[1]", "[0]")]
    return forms
