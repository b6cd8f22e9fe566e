"""Programs for the small engines, and their gradients."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

Program = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]

TENSOR = {"classes": "Variable", "rebinding": "Array"}
"""An engine's class, if it is not `Tensor`."""

WEIGHED: dict[str, Callable[..., Any]] = {
    "classes": lambda end, weights: end / (1 / weights),
    "closures": lambda end, weights: end * weights,
    "inline": lambda end, weights: end * weights,
}
"""Engines whose `backward` always starts with ones, and how to weight their output."""

FULL, ROW, COLUMN, NEW = (4, 3), (3,), (4, 1), (2, 1, 3)

PROGRAMS: dict[str, tuple[Program, tuple[tuple[int, ...], ...]]] = {
    "add": (lambda a, b: a + b, (FULL, FULL)),
    "add row": (lambda a, b: a + b, (ROW, FULL)),
    "add column": (lambda a, b: a + b, (FULL, COLUMN)),
    "add created and stretched": (lambda a, b: a + b, (COLUMN, NEW)),
    "add two created": (lambda a, b: a + b, (ROW, (2, 4, 3))),
    "add scalar": (lambda a, b: a + b, ((), FULL)),
    "add itself": (lambda a, b: a + b + a, (ROW, FULL)),
    "sub": (lambda a, b: a - b, (COLUMN, FULL)),
    "sub row": (lambda a, b: a - b, (FULL, ROW)),
    "mul": (lambda a, b: a * b, (FULL, ROW)),
    "mul twice": (lambda a, b: (a * b) * (a + b), (FULL, COLUMN)),
    "div": (lambda a, b: a / b, (FULL, ROW)),
    "pow": (lambda a: a**3, (FULL,)),
    "matmul": (lambda a, b: a @ b, ((2, 3), (3, 4))),
    "matmul of squares": (lambda a, b: a @ b, ((3, 3), (3, 3))),
    "matmul of a reused result": (lambda a, b: (a + a) @ (b + b) + a @ b, ((2, 3), (3, 4))),
    "exp": (lambda a: a.exp(), (FULL,)),
    "relu": (lambda a: a.relu(), (FULL,)),
    "tanh": (lambda a: a.tanh() if hasattr(a, "tanh") else np.tanh(a), (FULL,)),
    "sum": (lambda a: a.sum(), (FULL,)),
    "sum of an axis": (lambda a: a.sum(axis=1), ((3, 3),)),
    "mean": (lambda a: a.mean(), (FULL,)),
    "shared result": (lambda a, b: _reused(a + b, a), (ROW, FULL)),
    "shared below": (lambda a, b: (a + b) * (a + b) + (a + b), (ROW, FULL)),
}
MISSING = {
    "central": {"sub", "div", "pow", "matmul", "exp", "relu", "sum", "mean"},
    "classes": {"mul", "pow", "exp", "relu", "tanh", "sum", "mean", "shared below"},
    "closures": {"exp", "relu", "mean"},
    "functional": {"div", "pow", "matmul", "exp", "relu", "sum", "mean"},
    "inline": {"sub", "div", "pow", "exp", "relu", "tanh", "sum"},
    "rebinding": {"div", "pow", "matmul", "relu", "tanh", "sum"},
    "stored_first": {"sub", "div", "pow", "matmul", "exp", "tanh", "mean", "sum of an axis"},
    "tape": {"sub", "div", "pow", "matmul", "relu", "tanh", "mean", "sum of an axis"},
}
"""The programs that an engine does not support, by prefixes of their names."""


def _reused(result: Any, leaf: Any) -> Any:
    """An intermediate result that is used after another result has been computed from it."""
    return result + (leaf + (result + leaf))


def programs_of(engine: str) -> list[str]:
    """The programs that an engine can run."""
    return [
        name
        for name in PROGRAMS
        if not any(name == start or name.startswith(f"{start} ") for start in MISSING[engine])
    ]


def draw(name: str) -> Arrays:
    """A program's leaves, with absolute values between 0.5 and 2."""
    rng = np.random.default_rng(0)
    shapes = PROGRAMS[name][1]
    return tuple(rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape) for shape in shapes)


def value(module: ModuleType, name: str, arrays: Arrays) -> np.ndarray:
    """A program's output."""
    program = PROGRAMS[name][0]
    if module.__name__.endswith("functional"):
        return module.vjp(program, *arrays)[0]
    end = program(*leaves(module, arrays))
    return np.asarray(end.value if hasattr(end, "value") else end.data)


def gradients(module: ModuleType, name: str, weighted: bool = True) -> Arrays:
    """The gradients of a program's output with the cotangent `weights`, by default ones."""
    arrays = draw(name)
    program, engine = PROGRAMS[name][0], module.__name__.rpartition(".")[2]
    shape = value(module, name, arrays).shape
    cotangent = weights(shape) if weighted else np.ones(shape)
    if engine == "functional":
        return tuple(module.vjp(program, *arrays)[1](cotangent))
    made = leaves(module, arrays)
    end = program(*made)
    if not weighted:
        end.backward()
    elif engine in WEIGHED:
        WEIGHED[engine](end, cotangent).backward()
    else:
        end.backward(cotangent)
    if engine == "classes":  # there gradients are tensors
        return tuple(leaf.grad.data for leaf in made)
    return tuple(leaf.grad for leaf in made)


def leaves(module: ModuleType, arrays: Arrays) -> list[Any]:
    """Arrays as tensors that require a gradient."""
    engine = module.__name__.rpartition(".")[2]
    options = {"requires_grad": True} if engine == "stored_first" else {}
    tensor = getattr(module, TENSOR.get(engine, "Tensor"))
    return [tensor(array, **options) for array in arrays]


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """The weights of the elements of an output."""
    return np.random.default_rng(1).uniform(0.5, 2, shape)
