"""How each engine of this folder is called, and which programs it supports."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Style:
    """An engine, as a person would call it who has read its source."""

    file: str
    """The file that defines its tensors."""
    programs: tuple[str, ...]
    """The beginnings of the names of the programs that it supports."""
    leaf: Callable[[Any, np.ndarray], Any]
    value: Callable[[Any], np.ndarray]
    gradients: Callable[[Any, Any, Sequence[Any], np.ndarray], Sequence[Any]]
    """From the module, an output, the leaves and a cotangent."""
    settings: str = ""
    """A file with what the harness cannot find out by itself."""

    @property
    def path(self) -> Path:
        """What the harness is told: the engine, or its settings."""
        return HERE / (self.settings or self.file)


def _stored(start: Callable[[Any, Any, np.ndarray], object], read: Callable[[Any], Any]) -> Any:
    """Gradients that are read from the leaves after the backward pass."""

    def gradients(m: Any, end: Any, leaves: Sequence[Any], weights: np.ndarray) -> list[Any]:
        start(m, end, weights)
        return [read(leaf) for leaf in leaves]

    return gradients


def _steps_of(m: Any, end: Any, leaves: Sequence[Any], weights: np.ndarray) -> list[np.ndarray]:
    """Gradients by which an optimizer with a learning rate of 1 has moved the leaves."""
    before = [leaf.data for leaf in leaves]
    m.SGD(leaves, lr=1.0).minimize((end * m.Parameter(weights)).sum())
    return [old - leaf.data for old, leaf in zip(before, leaves, strict=True)]


_WEIGHTED = _stored(lambda m, t, w: (t * w).backward(), lambda leaf: leaf.grad)
_DIRECT = _stored(lambda m, t, w: t.backward(w), lambda leaf: leaf.grad)

STYLES = {
    "two_flags": Style(
        "two_flags.py",
        ("add", "sub", "mul", "matmul", "sum", "shared"),
        lambda m, x: m.Tensor(x, requires_grad=True, keep_grad=True),
        lambda t: t.data,
        _DIRECT,
    ),
    "labelled": Style(
        "labelled.py",
        ("add", "mul", "tanh", "sum", "shared"),
        lambda m, x: m.Var("x", x, m.Role.PARAMETER),
        lambda t: t.value,
        _stored(
            lambda m, t, w: (t * m.Var("w", w, m.Role.CONSTANT)).backpropagate(),
            lambda leaf: leaf.gradient,
        ),
        "labelled.toml",
    ),
    "fixed_rank": Style(
        "fixed_rank.py",
        ("add", "add column", "mul", "mul twice", "matmul", "relu"),
        lambda m, x: m.Matrix(x),
        lambda t: t.data,
        _WEIGHTED,
    ),
    "returned": Style(
        "returned.py",
        ("add", "mul", "div", "exp", "sum", "sum of an axis", "shared"),
        lambda m, x: m.Tensor(x),
        lambda t: t.values,
        lambda m, t, leaves, w: m.gradients((t * w).sum(), leaves),
    ),
    "tape_counter": Style(
        "tape_counter.py",
        ("add", "mul", "exp", "mean", "shared"),
        lambda m, x: m.Tensor(x),
        lambda t: t.data,
        _DIRECT,
    ),
    "dispatch": Style(
        "dispatch.py",
        ("add", "sub", "mul", "div", "matmul", "relu", "sum", "shared"),
        lambda m, x: m.Node(x),
        lambda t: t.data,
        _WEIGHTED,
    ),
    "refusing": Style(
        "refusing.py",
        ("add", "mul", "pow", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda t: t.data,
        _DIRECT,
    ),
    "tensor_grads": Style(
        "tensor_grads.py",
        ("add", "sub", "mul", "tanh", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda t: t.numpy(),
        _stored(lambda m, t, w: t.backward(m.Tensor(w)), lambda leaf: leaf.grad.numpy()),
    ),
    "global_graph": Style(
        "global_graph.py",
        ("add", "sub", "mul", "matmul", "sum", "shared"),
        lambda m, x: m.Variable(x),
        lambda t: t.value,
        _stored(lambda m, t, w: m.backward(t, w), lambda leaf: leaf.grad),
    ),
    "minimizing": Style(
        "minimizing.py",
        ("add", "mul", "pow", "matmul", "sum", "shared"),
        lambda m, x: m.Parameter(x),
        lambda t: t.data,
        _steps_of,
        "minimizing.toml",
    ),
    "visitors": Style(
        "visitors.py",
        ("add", "mul", "tanh", "sum", "shared"),
        lambda m, x: m.Parameter(x),
        lambda t: t.value,
        _stored(
            lambda m, t, w: [m.walk(e, v) for e in [t * w] for v in (m.Clear(), m.Pull())],
            lambda leaf: leaf.grad,
        ),
        "visitors.toml",
    ),
    "sibling": Style(
        "sibling/lattice/tensor.py",
        ("add", "sub", "mul", "mean", "shared"),
        lambda m, x: m.Tensor(x, requires_grad=True),
        lambda t: t.data,
        _DIRECT,
    ),
    "own_minigrad": Style(
        "own_minigrad/minigrad/tensor.py",
        ("add", "sub", "mul", "div", "pow", "relu", "sum", "shared"),
        lambda m, x: m.Tensor(x),
        lambda t: t.data,
        _WEIGHTED,
    ),
}

_LEFT_OUT = {
    "fixed_rank": {
        "add scalar",
        *("add row", "add created and stretched", "add two created", "add itself", "mul"),
    },
    "refusing": {"add created and stretched", "add two created"},
}
"""Programs with shapes that an engine refuses or changes."""


def programs_of(name: str, programs: Sequence[str]) -> list[str]:
    """The programs that an engine supports."""
    supported = [p for p in programs if p.startswith(STYLES[name].programs)]
    if "sum of an axis" not in STYLES[name].programs:
        supported = [p for p in supported if p != "sum of an axis"]
    return [p for p in supported if p not in _LEFT_OUT.get(name, ())]


@contextmanager
def loaded(name: str) -> Iterator[ModuleType]:
    """Import an engine from its file, whatever else has the name of its package."""
    root, module = _root_and_module(STYLES[name].file)
    packages = {path.stem for path in root.iterdir() if path.is_dir() or path.suffix == ".py"}
    hidden = {key: sys.modules.pop(key) for key in _modules_of(packages)}
    sys.path.insert(0, str(root))
    try:
        yield importlib.import_module(module)
    finally:
        sys.path.remove(str(root))
        for key in _modules_of(packages):
            del sys.modules[key]
        sys.modules.update(hidden)


def _root_and_module(file: str) -> tuple[Path, str]:
    *folders, package, stem = Path(file).with_suffix("").parts if "/" in file else ("", file[:-3])
    module = f"{package}.{stem}" if package else stem
    return HERE.joinpath(*folders), module


def _modules_of(packages: set[str]) -> list[str]:
    """The names of the imported modules of these packages."""
    return [name for name in sys.modules if name.partition(".")[0] in packages]
