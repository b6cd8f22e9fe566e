"""Which public functions of minigrad no break changes, and why each of them may stay so.

A break changes a function if a hunk of its patch lies in it. What a learner can get wrong should be
changed by some break, so a function without one needs a reason here.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import minigrad
from harness.pages.front_matter import Break, TrainingBreak
from harness.patch.scope import Alternative, parse_scope
from tests.harness.bundled import bundled_pages

FOLDER = Path(minigrad.__file__).parent

READS = "it only reads the array"
CALLS = "it only calls another function, which breaks change"
TWIN = "it is a copy of another function with one name exchanged, and breaks change that one"

UNTOUCHED = {
    "array_interface.py::ArrayInterface.dtype": READS,
    "array_interface.py::ArrayInterface.eq": READS,
    "array_interface.py::ArrayInterface.item": READS,
    "array_interface.py::ArrayInterface.ndim": READS,
    "array_interface.py::ArrayInterface.ne": READS,
    "array_interface.py::ArrayInterface.numpy": READS,
    "array_interface.py::ArrayInterface.shape": READS,
    "array_interface.py::ArrayInterface.size": READS,
    "checkpoint.py::save": "breaks change what it saves, in `state_dict` and `_all_generators`",
    "data.py::MeanImputer.fit": "the mean of a column, as in `StandardScaler.fit`",
    "data.py::check_complete": "it refuses what `_missing` finds, and breaks change that",
    "elementwise.py::exp": "its rule returns the value itself; `tanh` has the same pitfalls",
    "elementwise.py::neg": "a sign, as in `sub`",
    "elementwise.py::to": "a cast, as in `accumulate`, and a break changes that one",
    "functions.py::cat": CALLS,
    "functions.py::grad": CALLS,
    "functions.py::maximum": CALLS,
    "functions.py::pad": CALLS,
    "indexing.py::gather": CALLS,
    "instrumentation.py::Instrumentation.add_": "breaks change the count and the check it calls",
    "instrumentation.py::Instrumentation.copy_": "breaks change the count and the check it calls",
    "instrumentation.py::Instrumentation.mul_": "breaks change the count and the check it calls",
    "instrumentation.py::Instrumentation.register_hook": CALLS,
    "instrumentation.py::Instrumentation.retain_grad": "a mark, which a break misreads",
    "instrumentation.py::Instrumentation.share_version": "breaks leave out its calls",
    "losses.py::mae": "its errors are those of `mse`",
    "methods.py::Methods.T": CALLS,
    "methods.py::Methods.exp": CALLS,
    "methods.py::Methods.expand": CALLS,
    "methods.py::Methods.flip": CALLS,
    "methods.py::Methods.gather": CALLS,
    "methods.py::Methods.mT": CALLS,
    "methods.py::Methods.maximum": CALLS,
    "methods.py::Methods.min": CALLS,
    "methods.py::Methods.reshape": CALLS,
    "methods.py::Methods.sort": CALLS,
    "methods.py::Methods.to": CALLS,
    "methods.py::Methods.transpose": CALLS,
    "methods.py::Methods.unsqueeze": CALLS,
    "metrics.py::EarlyStopping.restore": CALLS,
    "metrics.py::RunningMean.value": "a quotient, whose parts a break makes wrong",
    "models.py::AveragedModel.forward": CALLS,
    "movement.py::expand": "its rule is `unbroadcast`",
    "nn/initialisers.py::xavier_uniform": "a break changes `he_uniform` in the same way",
    "nn/initialisers.py::zeros": "there is nothing to get wrong",
    "nn/layers.py::AvgPool2d.forward": CALLS,
    "nn/layers.py::LowRankAdapter.forward": "a product and a sum, as in `merge`",
    "nn/layers.py::MaxPool2d.forward": CALLS,
    "nn/layers.py::ReLU.forward": CALLS,
    "nn/layers.py::Sigmoid.forward": CALLS,
    "nn/layers.py::Tanh.forward": CALLS,
    "nn/module.py::Module.eval": CALLS,
    "nn/module.py::Module.generators": CALLS,
    "nn/module.py::Module.modules": CALLS,
    "nn/module.py::Module.named_parameters": "breaks change `_parts`, which finds them",
    "nn/module.py::Module.parameters": CALLS,
    "nn/module.py::Sequential.forward": "a loop over the layers",
    "optim.py::GradScaler.scale": "a product, which breaks undo wrongly",
    "optim.py::Groups.load_state_dict": CALLS,
    "optim.py::Groups.state_dict": CALLS,
    "optim.py::Optimizer.load_state_dict": "breaks change what it loads, in `remembers`",
    "optim.py::Optimizer.state_dict": "breaks change what it saves, in `remembers`",
    "optim.py::Scheduler.state_dict": "a break changes how it is loaded",
    "optim.py::Scheduler.step": CALLS,
    "optim.py::cosine": "a formula, which a break calls with the wrong argument",
    "precision.py::widened": "breaks leave out its calls",
    "reductions.py::min": TWIN,
    "reductions.py::reduced_axes": "it makes a tuple of axes, which NumPy checks",
    "selection.py::maximum": TWIN,
    "state.py::Stateful.load_state_dict": "a declaration without code",
    "state.py::Stateful.state_dict": "a declaration without code",
    "state.py::check_state": "breaks leave out its calls",
    "tensor.py::Tensor.is_leaf": READS,
    "tensor.py::tensor": CALLS,
    "tracing.py::trace": "an instrument of the harness",
    "visits.py::freed": "a rule that only raises; a break leaves a leaf's None in its place",
}
"""Public functions in which no break has a hunk, with the reason."""

Definition = tuple[str, str]
"""A file of minigrad, such as `nn/layers.py`, and a dotted name in it."""


@cache
def definitions() -> frozenset[Definition]:
    """Every function and method, also those inside others, by file and dotted name."""

    def visit(file: str, node: ast.AST, prefix: str) -> Iterator[Definition]:
        for child in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{prefix}{child.name}."
            if isinstance(child, ast.FunctionDef):
                yield file, f"{prefix}{child.name}"
            yield from visit(file, child, inside)

    files = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*.py")}
    trees = {file: ast.parse(path.read_text("utf-8")) for file, path in files.items()}
    return frozenset(found for file, tree in trees.items() for found in visit(file, tree, ""))


def changed() -> set[Definition]:
    """The definitions that a scope of some break names, and what is around and inside them."""
    headers = {
        header
        for page in bundled_pages()
        if isinstance(page.front, Break | TrainingBreak)
        for fence in page.diffs("minigrad")
        for header in re.findall(r"^@@ (.*) @@$", fence.text, re.M)
    }
    alternatives = [a for header in headers for a in parse_scope(header).alternatives]
    named = {
        (file, name)
        for file, name in definitions()
        if any(takes(alternative, file, name) for alternative in alternatives)
    }
    return {
        (file, name)
        for file, name in definitions()
        if any(file == other and _overlap(name, scope) for other, scope in named)
    }


def takes(alternative: Alternative, file: str, name: str) -> bool:
    """Whether the alternative of a scope names this definition."""
    path, segments = [part for part in alternative.path if part], name.split(".")
    return (
        alternative.takes_file(f"minigrad/{file}")
        and 0 < len(path) <= len(segments)
        and all(map(fnmatchcase, segments[-len(path) :], path))
    )


def _overlap(name: str, other: str) -> bool:
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


def public() -> set[Definition]:
    """The functions and methods of classes whose names have no underscore in front."""
    return {
        (file, name)
        for file, name in definitions()
        if not any(part.startswith("_") for part in name.split("."))
        and not any(
            (file, name[: dot.start()]) in definitions() for dot in re.finditer(r"\.", name)
        )
    }


def test_every_public_function_is_changed_by_a_break_or_has_a_reason() -> None:
    untouched = {f"{file}::{name}" for file, name in public() - changed()}
    assert sorted(untouched) == sorted(UNTOUCHED)
