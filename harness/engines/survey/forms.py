"""Candidate expressions: the interfaces that engines usually have."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeVar

from harness.engines.calling import attribute_of, attributes_of, parameters_of, takes_nothing
from harness.engines.engine import Dialect
from harness.engines.library import names_in, substituted

AnyForm = TypeVar("AnyForm")

USUAL = ("Tensor", "Variable", "Value", "Var", "Node", "Parameter", "Array", "Matrix", "Scalar")
ARRAY_ATTRIBUTES = ("shape", "sum", "reshape", "T", "transpose", "__matmul__", "matmul", "ndim")
FUNCTIONAL = ("make_vjp", "vjp", "value_and_grad", "grad")


def classes_of(module: ModuleType) -> list[str]:
    """The public classes of a module with a public backward method, usual names first."""
    return _public_classes(
        module,
        lambda value: any(not method.startswith("_") for method in _backward_methods(value)),
    )


def number_classes(module: ModuleType) -> list[str]:
    """The public classes of a module that define arithmetic, usual names first."""
    top = module.__name__.partition(".")[0]
    return _public_classes(
        module,
        lambda value: (
            str(value.__module__).partition(".")[0] == top
            and any(hasattr(value, operator) for operator in ("__add__", "__mul__"))
        ),
    )


def _public_classes(module: ModuleType, accepts: Callable[[type], bool]) -> list[str]:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and not str(name).startswith("_") and accepts(value)
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
    short = value.removeprefix("t.").strip("_")
    likely = re.compile(rf"grad|adj|deriv|cotan|^_?d_?{re.escape(short)}$|^_?(delta|dout|dx|g)$")
    own = [name for name in _public_or_private(t) if likely.search(name.lower())]
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


def functions_in(modules: Iterable[str], *names: str) -> list[str]:
    """The functions of these names in the modules, as expressions."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in names
        if callable(attribute_of(sys.modules.get(module), name))
    ]


GradientPlace = Literal["stored", "returned", "moved"]
"""Where gradients are after a backward pass: in the leaves, in its value, or in what it changes in
the data of the leaves."""


@dataclass(frozen=True)
class BackwardForm:
    """An expression that may run the backward pass, and where the gradients are afterwards."""

    expression: str
    gradients: GradientPlace = "stored"


def storing(declared: Dialect, leaf: str, target: Any, modules: list[str]) -> list[BackwardForm]:
    """Return backward passes, with a cotangent or from a weighted sum, that store gradients."""
    backward = declared.backward
    forms = [backward] if backward else _each(_constants(leaf), _stored, target, modules)
    return list(map(BackwardForm, forms))


def returning(declared: Dialect, leaf: str, target: Any, modules: list[str]) -> list[BackwardForm]:
    """Return backward passes of given leaves, and steps of optimizers that run one."""
    if declared.backward:
        moved = "before" in names_in(declared.gradient)
        return [BackwardForm(declared.backward, "moved" if moved else "returned")]
    constants = _constants(leaf)
    returned = _each(constants, _returned, target, modules)
    return [*returned, *_each(constants, _optimizers, target, modules)]


def _constants(leaf: str) -> list[str]:
    """Expressions for the cotangent as a tensor, first without the flags of a leaf."""
    differentiable = substituted(leaf, "data", "cotangent")
    without_flags = re.sub(r"(, \w+=(True|False))+\)$", ")", differentiable)
    return list(dict.fromkeys((without_flags, differentiable)))


def _each(
    constants: list[str],
    forms: Callable[[str, Any, list[str]], Iterator[AnyForm]],
    target: Any,
    modules: list[str],
) -> list[AnyForm]:
    return [form for constant in constants for form in forms(constant, target, modules)]


def _weighted(constant: str, target: Any, modules: list[str]) -> list[str]:
    """The output times a constant, element by element."""
    forms = [f"(t * {constant})"]
    if not hasattr(target, "__mul__"):
        forms += [f"t.{name}({constant})" for name in ("mul", "multiply") if hasattr(target, name)]
    forms += [f"{name}(t, {constant})" for name in functions_in(modules, "mul", "multiply")]
    return [*forms, f"(t / {substituted(constant, 'cotangent', '(1 / cotangent)')})"]


def _scalars(constant: str, target: Any, modules: list[str]) -> list[str]:
    """The weighted sum of the output, and the weighted output for engines that add it up."""
    return [
        scalar
        for output in _weighted(constant, target, modules)
        for scalar in (*_sums(output, modules), output)
    ]


def _stored(constant: str, target: Any, modules: list[str]) -> Iterator[str]:
    """Backward passes that leave the gradients in the leaves."""
    scalars = _scalars(constant, target, modules)
    for method in backward_methods(target):
        yield from (f"t.{method}({passed})" for passed in _cotangents(target, method, constant))
        for name in parameters_of(attribute_of(target, method)) or ():
            if re.search(r"grad|seed|cotangent|upstream|dy|dout", name.lower()):
                yield from (f"t.{method}({name}=cotangent)", f"t.{method}({name}={constant})")
        yield from (f"{scalar}.{method}()" for scalar in scalars)
    for function in _differentiating(modules):
        yield from (f"{function}(t, cotangent)", f"{function}(t, {constant})")
        yield from (f"{function}({scalar})" for scalar in scalars)


def _cotangents(target: Any, method: str, constant: str) -> list[str]:
    """What a method may be passed as its cotangent, the likeliest first: an array, or a tensor.

    Its first parameter decides: by its annotation, or by a name that means something else.
    """
    parameters = list((parameters_of(attribute_of(target, method)) or {}).values())[1:]
    if parameters and _NO_COTANGENT.search(parameters[0].name.lower()):
        return []
    annotation = str(parameters[0].annotation) if parameters else ""
    is_tensor = re.search(rf"\b{target.__name__}\b", annotation)
    return [constant, "cotangent"] if is_tensor else ["cotangent", constant]


_NO_COTANGENT = re.compile(r"retain|create|visited|seen|order|topo|graph|leaves|param|verbose")


def _differentiating(modules: list[str]) -> list[str]:
    """The functions whose name says that they differentiate, as expressions."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in attributes_of(sys.modules[module])
        if _DIFFERENTIATES.search(name)
        and not _OTHER_PURPOSE.search(name)
        and inspect.isfunction(attribute_of(sys.modules[module], name))
    ]


_DIFFERENTIATES = re.compile(r"back(ward|prop|pass)|grad(s|ients?)?$|derivatives?|differentiate")
_OTHER_PURPOSE = re.compile(r"zero|clip|numer|check|broadcast|no_grad|enable|unary|binary|reset")

_LOOKED_UP = (
    "(lambda found: [found[leaf] for leaf in leaves])({call})",
    "(lambda found: [found[id(leaf)] for leaf in leaves])({call})",
)
"""Gradients that are returned in a mapping, by leaf or by its identity."""


def _returned(constant: str, target: Any, modules: list[str]) -> Iterator[BackwardForm]:
    """Backward passes that return the gradients of given leaves."""
    scalars = _scalars(constant, target, modules)
    for function in _differentiating(modules):
        calls = [f"{function}({scalar}" for scalar in scalars]
        for expression in (
            *(f"{call}, leaves)" for call in calls),
            f"{function}(t, leaves, cotangent)",
            f"{function}(t, leaves, {constant})",
            *(f"{call}, *leaves)" for call in calls),
            *(f"[{call}, leaf) for leaf in leaves]" for call in calls),
            *(f"{function}(leaves, {scalar})" for scalar in scalars),
            *_looked_up([*(f"{call})" for call in calls), f"{function}(t, cotangent)"]),
        ):
            yield BackwardForm(expression, "returned")
    for method in backward_methods(target):
        calls = [f"{scalar}.{method}(" for scalar in scalars]
        for expression in (
            *(f"{call}leaves)" for call in calls),
            *(f"[{call}leaf) for leaf in leaves]" for call in calls),
            *_looked_up([*(f"{call})" for call in calls), f"t.{method}(cotangent)"]),
        ):
            yield BackwardForm(expression, "returned")


def _looked_up(calls: Iterable[str]) -> list[str]:
    return [form.format(call=call) for call in calls for form in _LOOKED_UP]


STEP = "2.0**20"
"""The learning rate of a step that shows the gradient; a power of two, so nothing is rounded."""

_STEPS: tuple[tuple[str, GradientPlace], ...] = (("0.0", "stored"), (STEP, "moved"))

_RATE = re.compile(r"lr|learning_?rate|rate|alpha|eta|step_?size")
_MINIMIZES = re.compile(r"minimi[sz]e|step|update|optimi[sz]e|train")


def _optimizers(constant: str, target: Any, modules: list[str]) -> Iterator[BackwardForm]:
    """Steps of optimizers that run the backward pass themselves.

    With a rate of 0, only the gradients that it stores are read.
    """
    for module, name in _classes(modules):
        optimizer = attribute_of(sys.modules[module], name)
        methods = [m for m in attributes_of(optimizer) if _MINIMIZES.fullmatch(m)]
        rates = [p for p in parameters_of(optimizer) or () if _RATE.fullmatch(p.lower())]
        for method in sorted(methods, key=lambda m: not m.startswith("minimi")):
            parameters = parameters_of(attribute_of(optimizer, method)) or ()  # with `self`
            if not rates or len(parameters) < 2:
                continue
            for scalar in _scalars(constant, target, modules):
                for rate, gradients in _STEPS:
                    new = f"{module}.{name}(leaves, {rates[0]}={rate})"
                    yield BackwardForm(f"{new}.{method}({scalar})", gradients)
                    new = f"{module}.{name}({rates[0]}={rate})"
                    yield BackwardForm(f"{new}.{method}({scalar}, leaves)", gradients)


def _classes(modules: list[str]) -> Iterator[tuple[str, str]]:
    for module in modules:
        for name in attributes_of(sys.modules[module]):
            if inspect.isclass(attribute_of(sys.modules[module], name)):
                yield module, name


def from_sums(target: Any, modules: Iterable[str]) -> list[str]:
    """Return expressions for the backward pass from the sum of a tensor, without a cotangent."""
    sums = _sums("t", modules)
    return [f"{scalar}.{method}()" for scalar in sums for method in backward_methods(target)]


def _sums(tensor: str, modules: Iterable[str]) -> list[str]:
    functions = functions_in(modules, "sum", "reduce_sum")
    return [f"{tensor}.sum()", *(f"{name}({tensor})" for name in functions)]


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
