"""The order in which minigrad is read: its README keeps its word, and imports go one way."""

import ast
import re
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import minigrad
from minigrad import tensor

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


def test_the_first_500_lines_hold_the_ops_that_the_readme_says() -> None:
    promised = re.findall(r"first 500 lines .*, up to `(\w+)`:", README, re.S)
    *before, last = [file for file, _, _ in TABLE]
    left = 500 - sum(lines(file) for file in before)
    ops = ast.parse((FOLDER / last).read_text("utf-8")).body
    ends = {op.name: op.end_lineno or 0 for op in ops if isinstance(op, ast.FunctionDef)}
    assert [name for name, end in ends.items() if end <= left][-1:] == promised


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
    assert "minigrad.elementwise" in graph["minigrad.tensor"]
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_walk_needs_no_instrumentation(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients() -> list[float]:
        a, b = tensor(2.0, requires_grad=True), tensor([3.0, 5.0], requires_grad=True)
        shared = a * b
        (shared * shared + shared.exp()).sum().backward()
        return [leaf.grad.sum() for leaf in (a, b) if leaf.grad is not None]

    instrumented = gradients()
    core = import_module("minigrad.tensor")  # the attribute of that name is the function
    monkeypatch.setattr(core, "instrumented", lambda visit, _: visit)
    assert len(instrumented) == 2
    assert gradients() == instrumented
