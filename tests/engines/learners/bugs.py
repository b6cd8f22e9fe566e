"""How each engine of this folder is called, what it supports, and five bugs for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Learner:
    """An engine, as a person would call it who has read its source."""

    tensor: str
    """The class of its tensors, or the function that makes a leaf."""
    programs: tuple[str, ...]
    """The beginnings of the names of the programs that it supports."""
    leaf: Callable[[Any, np.ndarray], Any]
    value: Callable[[Any, Any], Any]
    backward: Callable[[Any, Any, np.ndarray], object]
    """From the module, an output and a cotangent."""
    gradient: Callable[[Any], Any]
    shapes: str = "any"
    """`numbers`, or `matrices`: two axes, neither more nor fewer."""


@dataclass(frozen=True)
class Bug:
    """A replacement in an engine's source."""

    name: str
    before: str
    after: str
    op: str
    """Where it is: an op, or `accumulate`, `seed`, `order`, `unbroadcast`."""


def _evaluated(t: Any) -> Any:
    t.evaluate()
    return t


def _symbol(m: Any, x: np.ndarray) -> Any:
    symbol = m.Symbol("x")
    symbol.set_value(float(x))
    return symbol


def _direct(m: Any, end: Any, weights: np.ndarray) -> None:
    end.backward(weights)


LEARNERS = {
    "tensor_cotangents": Learner(
        "Tensor",
        ("add", "mul", "matmul", "exp", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: t.data,
        lambda m, t, w: t.backward(m.Tensor(w)),
        lambda leaf: leaf.grad.data,
    ),
    "enum_kinds": Learner(
        "Tensor",
        ("add", "sub", "mul", "matmul", "relu", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: t.data,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "in_place": Learner(
        "Tensor",
        ("add", "sub", "mul", "tanh", "mean", "shared"),
        lambda m, x: m.Tensor(x, requires_grad=True),
        lambda m, t: t.data,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "matrices": Learner(
        "Mat",
        ("add", "sub", "mul", "matmul", "relu", "shared"),
        lambda m, x: m.Mat(x),
        lambda m, t: t.w,
        _direct,
        lambda leaf: leaf.dw,
        shapes="matrices",
    ),
    "scalars": Learner(
        "Value",
        ("add", "sub", "mul", "div", "pow", "exp", "tanh", "shared"),
        lambda m, x: m.Value(x),
        lambda m, t: t.data,
        lambda m, t, w: (t * float(w)).backward(),
        lambda leaf: leaf.grad,
        shapes="numbers",
    ),
    "tensor_reducers": Learner(
        "Tensor",
        ("add", "sub", "mul", "div", "exp", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: t.value,
        _direct,
        lambda leaf: leaf.grad.value,
    ),
    "applied": Learner(
        "Tensor",
        ("add", "mul", "matmul", "relu", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: t.data,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "lazy": Learner(
        "LazyTensor",
        ("add", "sub", "mul", "exp", "tanh", "sum", "shared"),
        lambda m, x: m.LazyTensor(x),
        lambda m, t: t.numpy(),
        _direct,
        lambda leaf: leaf.grad,
    ),
    "static": Learner(
        "Input",
        ("add", "mul", "matmul", "relu", "sum", "shared"),
        lambda m, x: m.Input(x),
        lambda m, t: m.run(t),
        lambda m, t, w: m.backprop(t, w),
        lambda leaf: leaf.gradient,
    ),
    "generators": Learner(
        "Var",
        ("add", "mul", "pow", "tanh", "sum", "shared"),
        lambda m, x: m.Var(x),
        lambda m, t: t.value,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "dataclass_nodes": Learner(
        "Node",
        ("add", "sub", "mul", "matmul", "exp", "mean", "shared"),
        lambda m, x: m.Node(x),
        lambda m, t: t.value,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "layers": Learner(
        "Tensor",
        ("add", "mul", "matmul", "relu", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: t.data,
        _direct,
        lambda leaf: leaf.grad,
    ),
    "deferred": Learner(
        "Quantity",
        ("add", "sub", "mul", "exp", "shared"),
        lambda m, x: m.Quantity("x", float(x)),
        lambda m, t: t.evaluate(),
        lambda m, t, w: _evaluated(t * float(w)).backward(),
        lambda leaf: leaf.adjoint,
        shapes="numbers",
    ),
    "set_later": Learner(
        "Symbol",
        ("add", "sub", "mul", "tanh", "shared"),
        lambda m, x: _symbol(m, x),
        lambda m, t: t.compute(),
        lambda m, t, w: (t * float(w)).reverse(),
        lambda leaf: leaf.der,
        shapes="numbers",
    ),
    "no_product": Learner(
        "Unit",
        ("add", "sub", "matmul", "pow", "tanh", "sum", "shared result"),
        lambda m, x: m.Unit(x),
        lambda m, t: t.data,
        lambda m, t, w: ((t + m.Unit(w / 2 - t.data)) ** 2).backward(),
        lambda leaf: leaf.grad,
    ),
    "flat_lists": Learner(
        "Tensor",
        ("add", "mul", "exp", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda m, t: np.reshape(t.data.data, t.data.shape),
        lambda m, t, w: (t * m.Tensor(w)).backward(),
        lambda leaf: np.reshape(leaf.grad.data, leaf.grad.shape),
    ),
}

BUGS = {
    "tensor_cotangents": (
        Bug("own factor", "Tensor(g.data * other.data)", "Tensor(g.data * self.data)", "mul"),
        Bug("no transpose", "self.data.T @ g.data", "self.data @ g.data", "matmul"),
        Bug("slope of the input", "g.data * out.data", "g.data * self.data", "exp"),
        Bug(
            "last part only",
            "part = Tensor(cotangents[id(parent)].data + part.data)",
            "part = Tensor(part.data)",
            "accumulate",
        ),
        Bug("stretched axes kept", "if n == 1)", "if n == 0)", "unbroadcast"),
    ),
    "enum_kinds": (
        Bug("sign", "return [g, -g]", "return [g, g]", "sub"),
        Bug(
            "swapped operands", "[g * values[1], g * values[0]]", "[g * values[0], g * values[1]]",
            "mul",
        ),
        Bug("mask of the gradient", "g * (values[0] > 0)", "g * (g > 0)", "relu"),
        Bug(
            "assigned", "operand.grad = operand.grad + _shrink", "operand.grad = _shrink",
            "accumulate",
        ),
        Bug("forward order", "in reversed(_sorted(self))", "in _sorted(self)", "order"),
    ),
    "in_place": (
        Bug("second operand forgotten", ", (other, lambda g: -g))", ")", "sub"),
        Bug("slope of the input", "1 - t * t", "1 - self.data * self.data", "tanh"),
        Bug("not divided", "* g / n", "* g", "mean"),
        Bug("assigned", "self.grad += grad_output", "self.grad = grad_output", "accumulate"),
        Bug(
            "sum that was already handed on", "rule(grad_output)", "rule(self.grad)", "accumulate"
        ),
    ),
    "matrices": (
        Bug("added, not subtracted", "other.dw -= fold", "other.dw += fold", "sub"),
        Bug("own factor", "fold(g * other.w, self.shape)", "fold(g * self.w, self.shape)", "mul"),
        Bug("assigned", "self.dw += fold(g * other.w", "self.dw = fold(g * other.w", "mul"),
        Bug("only rows are folded", "for axis in (0, 1):", "for axis in (0,):", "unbroadcast"),
        Bug("no seed", "self.dw = np.ones(self.shape) if", "seed = np.ones(self.shape) if", "seed"),
    ),
    "scalars": (
        Bug("own factor", "(other.data, self.data))", "(self.data, other.data))", "mul"),
        Bug("no square", "-self.data / other.data**2", "-self.data / other.data", "div"),
        Bug("exponent of the slope", "k * self.data ** (k - 1)", "k * self.data**k", "pow"),
        Bug("assigned", "operand.grad += slope", "operand.grad = slope", "accumulate"),
        Bug("no seed", "self.grad = 1.0", "pass", "seed"),
    ),
    "tensor_reducers": (
        Bug(
            "first operand not summed",
            "                sum_to_shape(g, initial_shape=self.shape),",
            "                g,",
            "add",
        ),
        Bug("no minus", "(-(g * r * r),)", "(g * r * r,)", "reciprocal"),
        Bug("no chain rule", "lambda g: (g * e,)", "lambda g: (e,)", "exp"),
        Bug("leading axes averaged", "value.sum(axis=0)", "value.mean(axis=0)", "unbroadcast"),
        Bug(
            "first part only", "else Tensor(earlier.value + part.value)", "else earlier",
            "accumulate",
        ),
    ),
    "applied": (
        Bug("shapes swapped", "shape_a, shape_b = ctx", "shape_b, shape_a = ctx", "add"),
        Bug(
            "mean of what was broadcast",
            "return grad.sum(axis=axes).reshape(shape)",
            "return grad.mean(axis=axes).reshape(shape)",
            "unbroadcast",
        ),
        Bug("one transpose forgotten", "a.T @ grad", "a @ grad", "matmul"),
        Bug("no chain rule", "np.full(ctx.saved[0], grad)", "np.ones(ctx.saved[0])", "sum"),
        Bug(
            "assigned", "part if source.grad is None else source.grad + part", "part", "accumulate"
        ),
    ),
    "lazy": (
        Bug("sign", "(g, -g)", "(-g, g)", "sub"),
        Bug("slope of the input", "1 - y * y", "1 - a * a", "tanh"),
        Bug("operand in place of the result", "(g * y,)", "(g * a,)", "exp"),
        Bug(
            "assigned", "grads[source] + part if source in grads else part", "part", "accumulate"
        ),
        Bug("seed ignored", "np.asarray(grad, dtype=float)}", "np.ones_like(y)}", "seed"),
    ),
    "static": (
        Bug("swapped operands", "return g * b, g * a", "return g * a, g * b", "mul"),
        Bug("no transpose", "return g @ b.T, a.T @ g", "return g @ b, a.T @ g", "matmul"),
        Bug("mask lost", "(g * (a > 0.0),)", "(g,)", "relu"),
        Bug("assigned", "source.gradient + sum_over", "sum_over", "accumulate"),
        Bug("no seed", "    node.gradient = np.ones_like", "    seed = np.ones_like", "seed"),
    ),
    "generators": (
        Bug("second operand not summed", "b.grad + trim(g, b)", "b.grad + g", "add"),
        Bug("exponent not multiplied", "g * k * a.value", "g * a.value", "pow"),
        Bug("slope of the input", "1 - t**2", "1 - a.value**2", "tanh"),
        Bug("forward order", "TAPE.pop()", "TAPE.pop(0)", "order"),
        Bug("assigned", "a.grad = a.grad + trim(g * b.value, a)", "a.grad = trim(g * b.value, a)",
            "mul"),
    ),
    "dataclass_nodes": (
        Bug(
            "second operand twice", "[lambda g: fit(g, self), lambda g: fit(g, other)]",
            "[lambda g: fit(g, self), lambda g: 2 * fit(g, other)]", "add",
        ),
        Bug("chain rule forgotten", "[lambda g: g * out]", "[lambda g: out]", "exp"),
        Bug("not divided", "g * scale * np", "g * np", "mean"),
        Bug("operands before results", "return order[::-1]", "return [self, *order[:-1]]", "order"),
        Bug(
            "assigned", "part if parent.grad is None else parent.grad + part", "part", "accumulate"
        ),
    ),
    "layers": (
        Bug("cache of the other operand", "dy = dout * x", "dy = dout * y", "mul"),
        Bug("mask of the output", "dx[self.cache] = 0", "dx[~self.cache] = 0", "relu"),
        Bug("one transpose forgotten", "dout.dot(w.T)", "dout.dot(w)", "matmul"),
        Bug("cache of the class", "self.cache = (x, y)", "MulLayer.cache = (x, y)", "mul"),
        Bug(
            "assigned", "dout if self.grad is None else self.grad + dout", "dout",
            "accumulate",
        ),
    ),
    "deferred": (
        Bug("sign", "return 1.0, -1.0", "return 1.0, 1.0", "sub"),
        Bug("swapped operands", "b.amount, a.amount", "a.amount, b.amount", "mul"),
        Bug("operand in place of the result", "(self.amount,)", "(a.amount,)", "exp"),
        Bug("assigned", "if self.adjoint is None else self.adjoint + adjoint", "", "accumulate"),
        Bug("no chain rule", "part.backward(slope * adjoint)", "part.backward(slope)", "order"),
    ),
    "set_later": (
        Bug("sign", "(1.0, -1.0)", "(-1.0, 1.0)", "sub"),
        Bug("swapped operands", "lambda a, b: (b, a)", "lambda a, b: (a, b)", "mul"),
        Bug("slope of the input", "1 - math.tanh(a) ** 2", "1 - a**2", "tanh"),
        Bug("assigned", "self.der += part", "self.der = part", "accumulate"),
        Bug("no chain rule", "x.spread(part * slope)", "x.spread(slope)", "order"),
    ),
    "no_product": (
        Bug("sign", "(g, -g)", "(g, g)", "sub"),
        Bug("one transpose forgotten", "(g @ b.T, a.T @ g)", "(g @ b.T, a @ g)", "matmul"),
        Bug("slope of the input", "1 - t * t", "1 - self.data**2", "tanh"),
        Bug("assigned", "source.grad += narrowed", "source.grad = narrowed", "accumulate"),
        Bug("stretched axes kept", "if n == 1)", "if n == 0)", "unbroadcast"),
    ),
    "flat_lists": (
        Bug(
            "own factor", "(g * other.data, g * self.data)", "(g * self.data, g * other.data)",
            "mul",
        ),
        Bug("no chain rule", "lambda g: (g * e,)", "lambda g: (e,)", "exp"),
        Bug(
            "assigned", "source.grad = source.grad + part", "source.grad = part", "accumulate"
        ),
        Bug("forward order", "in reversed(order)", "in order", "order"),
        Bug("stretched axes kept", "if n == 1)", "if n == 0)", "unbroadcast"),
    ),
}  # fmt: skip
"""Five bugs for each engine."""

_LEFT_OUT = {
    "matrices": {
        *("add row", "add created and stretched", "add two created", "add scalar", "add itself"),
        *("mul", "sub row", "shared result", "shared below"),
    },
    "numbers": {"add row", "sum of an axis"},
}
"""Programs with shapes that an engine refuses."""


def programs_of(name: str, programs: Sequence[str]) -> list[str]:
    """The programs that an engine supports."""
    learner = LEARNERS[name]
    supported = [p for p in programs if p.startswith(learner.programs) and p != "sum of an axis"]
    return [p for p in supported if p not in _LEFT_OUT.get(learner.shapes, ())]


def leaves_of(name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A program's leaves, as the engine takes them."""
    return [a.ravel()[0] if LEARNERS[name].shapes == "numbers" else a for a in arrays]


def write(folder: Path, name: str, bug: Bug | None = None) -> Path:
    """Write an engine to a folder, with a bug if one is given."""
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    if bug is not None:
        if source.count(bug.before) != 1:
            raise ValueError(f"{bug.before!r} is in {name} {source.count(bug.before)} times")
        source = source.replace(bug.before, bug.after)
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return path


def module_at(path: Path) -> ModuleType:
    """Load an engine from its file."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
