"""A loaded engine or library, called through its dialect, and the leaves that a probe creates."""

from __future__ import annotations

import ast
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.engines.engine import EXPRESSIONS, Dialect

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

    @contextlib.contextmanager
    def creating(self, creations: Creations) -> Iterator[None]:
        """Record the leaves that a probe creates inside."""
        with contextlib.ExitStack() as stack:
            if self.module.__name__ == "torch":
                _watch_torch(self.module, creations, stack)
            elif isinstance(getattr(self.module, "Tensor", None), type):
                _watch_class(self.module, creations, stack)
            yield

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
        return function_of(expression, EXPRESSIONS[name], self._names, f"{CODE_OF}{name}>")


def names_for(module: ModuleType, functions: Iterable[str]) -> dict[str, Any]:
    """Return the names that the expressions of a module's dialect may use."""
    tops = {name.partition(".")[0] for name in (module.__name__, *functions)}
    packages = {top: importlib.import_module(top) for top in tops}
    return {"np": np, **packages, **vars(module)}


# ----- Expressions of a dialect, compiled to functions of the names that they may use -----
#
# Since these names are parameters, comprehensions and lambdas inside an expression see them too.


def function_of(
    expression: str, parameters: Iterable[str], names: Mapping[str, Any], filename: str
) -> Callable[..., Any]:
    """Return the expression as a function of these keywords, with `names` as its globals.

    A keyword that is not passed is None. Raises SyntaxError if it is not an expression.
    """
    body = ast.parse(expression, filename, "eval").body
    keywords = [ast.arg(name) for name in parameters]
    arguments = ast.arguments(
        posonlyargs=[],
        args=[],
        kwonlyargs=keywords,
        kw_defaults=[ast.Constant(None) for _ in keywords],
        defaults=[],
    )
    tree = ast.Expression(ast.Lambda(arguments, body))
    code = compile(ast.fix_missing_locations(tree), filename, "eval")
    function: Callable[..., Any] = eval(code, dict(names))  # noqa: S307  settings are code
    return function


def names_in(expression: str) -> set[str]:
    """Return the names that an expression looks up; none if it cannot be parsed."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def substituted(expression: str, name: str, replacement: str) -> str:
    """Return the expression with a name replaced; keywords and attributes of that name stay."""
    tree = ast.parse(expression, mode="eval")
    new = ast.parse(replacement, mode="eval").body
    return ast.unparse(_Substitution(name, new).visit(tree))


class _Substitution(ast.NodeTransformer):
    def __init__(self, name: str, new: ast.expr) -> None:
        self.name, self.new = name, new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace the name."""
        return self.new if node.id == self.name else node


# ----- The leaves that a probe creates: the weights of its layers, and tensors that it makes -----
#
# They are numbered in the order of creation, and named by what a reader sees: `Linear[0].weight` is
# the weight of the first Linear, `tensor[0]` the first tensor that the probe's own text makes. The
# names are the same on every engine, so that two runs can be compared. What the engine's code makes
# for itself (a state of zeros, a copy for a recomputation) has no name, and is not recorded.
#
# The engine needs no changes: a wrapper around the constructor of its tensors, and around the
# assignment of attributes of its layers, exists only while a probe runs. PyTorch has a hook for its
# layers. An adapter's own layers report their weights themselves.


class Creations:
    """The leaves that one run of a probe creates.

    `values` fixes the data of some of them, by name, whatever the probe stores in them.
    """

    def __init__(self, path: str, values: Mapping[str, NumericArray] | None = None) -> None:
        self.path, self.values = path, dict(values or {})
        self.leaves: dict[str, Any] = {}
        """By name, in the order of creation."""
        self.unreadable: set[str] = set()
        """The names of leaves whose gradients cannot be read."""
        self._made: dict[int, Any] = {}
        """Tensors by their id; the reference keeps another tensor from getting the same id."""
        self._names: dict[int, str] = {}
        self._owners: dict[str, list[Any]] = {}
        self._tensors = 0

    def restart(self) -> None:
        """Count from 0 again: an engine of functions calls the probe once for each leaf."""
        self._owners.clear()
        self._tensors = 0

    def next_tensor(self) -> str:
        """Return the name of the tensor that the probe's own text is about to make."""
        self._tensors += 1
        return f"tensor[{self._tensors - 1}]"

    def next_parameter(self, owner: Any, attribute: str) -> str:
        """Return the name of a layer's attribute."""
        kind = type(owner).__name__
        owners = self._owners.setdefault(kind, [])
        number = next((i for i, other in enumerate(owners) if other is owner), len(owners))
        if number == len(owners):
            owners.append(owner)
        return f"{kind}[{number}].{attribute}"

    def note(self, name: str, tensor: Any) -> None:
        """Record a leaf; a later one of the same name replaces it."""
        self._made[id(tensor)] = tensor
        self._names[id(tensor)] = name
        self.leaves[name] = tensor

    def made(self, tensor: Any, frame: FrameType) -> None:
        """Record a tensor that was just made; `frame` is that of the constructor's caller."""
        self._made[id(tensor)] = tensor
        if _maker(frame).f_code.co_filename == self.path:
            self.note(self.next_tensor(), tensor)

    def assigned(self, owner: Any, attribute: str, tensor: Any) -> str | None:
        """Record that a tensor became part of a layer; return its name if that is the first time.

        A tensor that was not made in this run is not recorded.
        """
        name = self._names.get(id(tensor), "")
        if id(tensor) not in self._made or not (name == "" or name.startswith("tensor[")):
            return None
        if name:
            del self.leaves[name]
        self.note(self.next_parameter(owner, attribute), tensor)
        return self._names[id(tensor)]


def _maker(frame: FrameType) -> FrameType:
    """Return the frame that asked for a tensor: the caller of `lib.tensor`, or of the class."""
    caller = frame.f_back
    return caller if caller and frame.f_code.co_name == "tensor" else frame


def _watch_class(module: ModuleType, creations: Creations, stack: contextlib.ExitStack) -> None:
    """Watch the constructor of `Tensor`, and the attributes of `nn.Module` if there is one."""
    tensor_type = module.Tensor
    construct, fixed = tensor_type.__init__, _FixedTensors(tensor_type)

    def make(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        creations.made(self, sys._getframe(1))
        fixed.fix(self, creations)

    _replace(tensor_type, "__init__", make, stack)
    layer_type = getattr(getattr(module, "nn", None), "Module", None)
    if not isinstance(layer_type, type):
        return
    assign: Any = layer_type.__setattr__

    def note(self: Any, name: str, value: Any) -> None:
        assign(self, name, value)
        for attribute, part in _parts(name, value):
            if isinstance(part, tensor_type) and creations.assigned(self, attribute, part):
                fixed.fix(part, creations)

    _replace(layer_type, "__setattr__", note, stack)


def _watch_torch(module: ModuleType, creations: Creations, stack: contextlib.ExitStack) -> None:
    """Watch `torch.tensor`, and the parameters of layers."""
    make = module.tensor

    def tensor(*arguments: Any, **options: Any) -> Any:
        made = make(*arguments, **options)
        if sys._getframe(1).f_code.co_filename == creations.path:
            creations.note(creations.next_tensor(), made)
        return made

    def register(owner: Any, name: str, parameter: Any) -> None:
        if parameter is not None:
            creations.note(creations.next_parameter(owner, name), parameter)

    hooks = module.nn.modules.module
    stack.callback(hooks.register_module_parameter_registration_hook(register).remove)
    _replace(module, "tensor", tensor, stack)


def _replace(owner: Any, name: str, value: Any, stack: contextlib.ExitStack) -> None:
    """Set an attribute of a module or a class until the end."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, value)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield f"{name}.{i}", part
    else:
        yield name, value


class _FixedTensors:
    """Tensors whose `data` is fixed: what the probe stores in them later has no effect.

    Such a tensor gets another class of the same layout, which reads `data` from here. So a layer's
    weight is what a diagnostic chose, although the probe loads the weights after making the layer.
    """

    def __init__(self, tensor_type: type) -> None:
        self._tensor_type = tensor_type
        self._type: type | None = None
        self._data: dict[int, NumericArray] = {}

    def fix(self, tensor: Any, creations: Creations) -> None:
        """Fix the data of a tensor if its name is among the values."""
        name = creations._names.get(id(tensor))
        if name is None or name not in creations.values:
            return
        if self._type is None:
            data = self._data

            def get(self: Any) -> NumericArray:
                return data[id(self)].copy()  # a change in place has no effect either

            def ignore(self: Any, value: Any) -> None:
                pass

            parts = {"__slots__": (), "data": property(get, ignore)}
            self._type = type(self._tensor_type.__name__, (self._tensor_type,), parts)
        self._data[id(tensor)] = np.array(creations.values[name])
        tensor.__class__ = self._type
