"""The small engines, each built another way, compute the gradients that finite differences do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines import (
    central,
    classes,
    closures,
    functional,
    inline,
    rebinding,
    stored_first,
    tape,
)

Program = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]

TENSORS = {
    "central": (central.Tensor, "data"),
    "classes": (classes.Variable, "data"),
    "closures": (closures.Tensor, "data"),
    "inline": (inline.Tensor, "data"),
    "rebinding": (rebinding.Array, "value"),
    "stored_first": (lambda data: stored_first.Tensor(data, requires_grad=True), "data"),
    "tape": (tape.Tensor, "data"),
}
WEIGHED: dict[str, Callable[..., Any]] = {
    "classes": lambda end, weights: end / (1 / weights),
    "closures": lambda end, weights: end * weights,
    "inline": lambda end, weights: end * weights,
}
"""Those whose `backward` always begins with ones."""

FULL, ROW, COLUMN, NEW = (4, 3), (3,), (4, 1), (2, 1, 3)

PROGRAMS: dict[str, tuple[Program, tuple[tuple[int, ...], ...]]] = {
    "add": (lambda a, b: a + b, (FULL, FULL)),
    "add row": (lambda a, b: a + b, (ROW, FULL)),
    "add column": (lambda a, b: a + b, (FULL, COLUMN)),
    "add created and stretched": (lambda a, b: a + b, (COLUMN, NEW)),
    "add itself": (lambda a, b: a + b + a, (ROW, FULL)),
    "sub": (lambda a, b: a - b, (COLUMN, FULL)),
    "mul": (lambda a, b: a * b, (FULL, ROW)),
    "mul twice": (lambda a, b: (a * b) * (a + b), (FULL, COLUMN)),
    "div": (lambda a, b: a / b, (FULL, ROW)),
    "pow": (lambda a: a**3, (FULL,)),
    "matmul": (lambda a, b: a @ b, ((2, 3), (3, 4))),
    "matmul of a reused result": (lambda a, b: (a + a) @ (b + b) + a @ b, ((2, 3), (3, 4))),
    "exp": (lambda a: a.exp(), (FULL,)),
    "relu": (lambda a: a.relu(), (FULL,)),
    "tanh": (lambda a: np.tanh(a) if isinstance(a, functional.Box) else a.tanh(), (FULL,)),
    "sum": (lambda a: a.sum(), (FULL,)),
    "sum of an axis": (lambda a: a.sum(axis=1), (FULL,)),
    "mean": (lambda a: a.mean(), (FULL,)),
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
"""What an engine leaves out, by the beginnings of the programs' names."""


CASES = [
    (engine, name)
    for engine, missing in MISSING.items()
    for name in PROGRAMS
    if not any(name == each or name.startswith(f"{each} ") for each in missing)
]


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_gradients_are_those_of_finite_differences(engine: str, name: str) -> None:
    program, shapes = PROGRAMS[name]
    arrays = _draw(shapes)
    gradients = _gradients(engine, program, arrays)
    assert len(gradients) == len(arrays)
    for i, gradient in enumerate(gradients):
        assert gradient.shape == arrays[i].shape
        np.testing.assert_allclose(gradient, _differences(engine, program, arrays, i), atol=1e-7)


def _draw(shapes: tuple[tuple[int, ...], ...]) -> Arrays:
    draw = np.random.default_rng(0)
    return tuple(draw.uniform(0.5, 2, shape) * draw.choice([-1, 1], shape) for shape in shapes)


def _value(engine: str, program: Program, arrays: Arrays) -> np.ndarray:
    if engine == "functional":
        return functional.vjp(program, *arrays)[0]
    leaf, value = TENSORS[engine]
    return np.asarray(getattr(program(*map(leaf, arrays)), value))


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.5, 2, shape)


def _gradients(engine: str, program: Program, arrays: Arrays) -> Arrays:
    weights = _weights(_value(engine, program, arrays).shape)
    if engine == "functional":
        return tuple(functional.vjp(program, *arrays)[1](weights))
    leaf, _ = TENSORS[engine]
    leaves = [leaf(array) for array in arrays]
    end = program(*leaves)
    if engine in WEIGHED:
        WEIGHED[engine](end, weights).backward()
    else:
        end.backward(weights)
    if engine == "classes":  # there gradients are tensors
        return tuple(x.grad.data for x in leaves)
    return tuple(x.grad for x in leaves)


def _differences(engine: str, program: Program, arrays: Arrays, which: int) -> np.ndarray:
    """Central differences of the weighted output, element by element."""
    step = 1e-6

    def weighted(moved: np.ndarray) -> float:
        value = _value(engine, program, (*arrays[:which], moved, *arrays[which + 1 :]))
        return float((value * _weights(value.shape)).sum())

    gradient = np.zeros(arrays[which].shape)
    for index in np.ndindex(gradient.shape):
        nudge = np.zeros(gradient.shape)
        nudge[index] = step
        ahead, behind = (weighted(arrays[which] + sign * nudge) for sign in (1, -1))
        gradient[index] = (ahead - behind) / (2 * step)
    return gradient
