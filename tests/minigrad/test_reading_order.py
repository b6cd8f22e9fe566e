"""The order in which minigrad is read: its README keeps its word, and imports go one way."""

import ast
import re
from collections.abc import Callable
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, tensor
from minigrad.types import Array, Cotangents

FOLDER = Path(minigrad.__file__).parent
README = (FOLDER / "README.md").read_text("utf-8")
TABLE = re.findall(r"^\| \[`([\w.]+)`\]\(\1\) \| (\d+) \| (\d+) \|", README, re.M)


def lines(file: str) -> int:
    return len((FOLDER / file).read_text("utf-8").splitlines())


def test_the_table_counts_the_lines() -> None:
    files = [file for file, _, _ in TABLE]
    assert files == ["types.py", "tensor.py", "broadcasting.py", "elementwise.py"]
    counts = [lines(file) for file in files]
    assert [int(count) for _, count, _ in TABLE] == counts
    assert [int(total) for _, _, total in TABLE] == np.cumsum(counts).tolist()


def test_the_first_files_are_as_short_as_the_readme_says() -> None:
    (promised,) = re.findall(r"less than (\d+) lines", README)
    assert sum(lines(file) for file, _, _ in TABLE) < int(promised)


def test_every_module_is_in_the_reading_order() -> None:
    linked = set(re.findall(r"\]\(([\w./]+)\)", README))
    modules = {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
    assert linked == modules | {"nn"}


def imports(path: Path) -> set[str]:
    """The modules of minigrad that a module imports, also where only a type checker would."""
    result = set()
    for statement in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for name in (f"{statement.module}.{alias.name}" for alias in statement.names):
                result.add(name if name in MODULES else statement.module)
        elif isinstance(statement, ast.Import):
            result |= {alias.name for alias in statement.names}
    return result & MODULES.keys()


def dotted(path: Path) -> str:
    parts = path.relative_to(FOLDER.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in FOLDER.rglob("*.py")}


def test_imports_are_without_a_circle() -> None:
    graph = {name: imports(path) for name, path in MODULES.items()}
    assert "minigrad.methods" in graph["minigrad.tensor"]
    TopologicalSorter(graph).prepare()  # raises CycleError


def bare_visitor(
    _order: list[Tensor], _wanted: object, kept: dict[Tensor, Array]
) -> Callable[[Tensor, Array], Cotangents]:
    """The one line that a gradient needs, and the gradients of the leaves."""

    def multiply(node: Tensor, g: Array) -> Cotangents:
        if node.vjp is None:
            kept[node] = g
            return ()
        return node.vjp(g)

    return multiply


def test_the_walk_needs_one_line_of_what_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients() -> list[float]:
        a, b = tensor(2.0, requires_grad=True), tensor([3.0, 5.0], requires_grad=True)
        shared = a * b
        (shared * shared + shared.exp()).sum().backward()
        return [leaf.grad.sum() for leaf in (a, b) if leaf.grad is not None]

    usual = gradients()
    core = import_module("minigrad.tensor")  # the attribute of that name is the function
    monkeypatch.setattr(core, "visitor", bare_visitor)
    assert len(usual) == 2
    assert gradients() == usual
