"""Page 0: an engine in a few lines, a backward pass by hand, and three slips of one line each.

What a learner reads is what runs here, and every number that is shown comes from such a run. The
lines are ours, and so they run in this process.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.engines.engine import find_engine

VALUE = """\
tape = []

class Value:
    def __init__(self, data, parents=(), rule=None):
        self.data, self.grad = data, 0
        self.parents, self.rule = parents, rule
        tape.append(self)
"""

OPERATIONS = """\
def add(a, b):
    def rule(g):
        return g, g
    return Value(a.data + b.data, (a, b), rule)

def mul(a, b):
    def rule(g):
        return g * b.data, g * a.data
    return Value(a.data * b.data, (a, b), rule)

Value.__add__, Value.__mul__ = add, mul
"""

BACKWARD = """\
def backward(output):
    output.grad = 1
    for node in reversed(tape):
        if node.rule:
            gradients = node.rule(node.grad)
            for parent, g in zip(node.parents, gradients):
                parent.grad += g
"""

ENGINE = "\n".join((VALUE, OPERATIONS, BACKWARD))
"""The whole engine: what is shown, and what runs."""

LINES = sum(bool(line.strip()) for line in ENGINE.splitlines())
"""The number of its lines that are not empty."""


@dataclass(frozen=True)
class Slip:
    """A change of one line that makes the engine wrong."""

    letter: str
    old: str
    new: str

    @property
    def engine(self) -> str:
        """The engine with this slip."""
        assert ENGINE.count(self.old) == 1
        return ENGINE.replace(self.old, self.new)


SLIPS = (
    Slip("a", "parent.grad += g", "parent.grad = g"),
    Slip("b", "return g * b.data, g * a.data", "return g * a.data, g * b.data"),
    Slip("c", "return g * b.data, g * a.data", "return b.data, a.data"),
)


@dataclass(frozen=True)
class Program:
    """A program for the engine, which computes `y`."""

    formula: str
    code: str


FIRST = Program("x*x + x", "x = Value(3)\ns = x * x\ny = s + x\n")
"""The program whose numbers the learner computes."""

PROGRAMS = (
    FIRST,
    Program("p*q", "p = Value(2)\nq = Value(5)\ny = p * q\n"),
    Program("x*x*x", "x = Value(3)\ns = x * x\ny = s * x\n"),
)
"""Each slip is hidden in one of them, and shows in another."""


@dataclass(frozen=True)
class Node:
    """A value of a program after its backward pass."""

    name: str
    data: float
    grad: float
    parents: tuple[str, ...]
    sent: tuple[float, ...]
    """What its rule returned, one number for each parent."""


@dataclass(frozen=True)
class Pass:
    """A program that has run, forward and backward: its values in the order of the tape."""

    nodes: tuple[Node, ...]

    def __getitem__(self, name: str) -> Node:
        """The value with this name."""
        return next(node for node in self.nodes if node.name == name)

    @property
    def gradients(self) -> Mapping[str, float]:
        """The gradient of each leaf."""
        return {node.name: node.grad for node in self.nodes if not node.parents}


def run(program: Program, engine: str = ENGINE) -> Pass:
    """Run a program and `backward(y)` with the engine in this text, and return what happened."""
    names = _computed(engine + program.code + "backward(y)\n")
    tape = names["tape"]
    called = {id(value): name for name, value in names.items()}
    return Pass(
        tuple(
            Node(
                called[id(node)],
                node.data,
                node.grad,
                tuple(called[id(parent)] for parent in node.parents),
                tuple(node.rule(node.grad)) if node.rule else (),
            )
            for node in tape
        )
    )


def value_at(x: float) -> float:
    """Return the value of the first program at another `x`."""
    code = FIRST.code.replace("Value(3)", f"Value({x!r})")
    value: float = _computed(ENGINE + code)["y"].data
    return value


def _computed(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, "<page 0>", "exec"), names)  # noqa: S102  these lines are above
    return names


@dataclass(frozen=True)
class Result:
    """The gradients of a program: with the engine, and with each slip."""

    program: Program
    inputs: Mapping[str, float]
    clean: Mapping[str, float]
    broken: Mapping[str, Mapping[str, float]]
    """By the letter of the slip."""

    def is_hidden(self, letter: str) -> bool:
        """Whether the gradients are right although the slip is in the code that ran."""
        return self.broken[letter] == self.clean


def results() -> tuple[Result, ...]:
    """Run every program with the engine and with every slip in it."""
    found = []
    for program in PROGRAMS:
        clean = run(program)
        inputs = {node.name: node.data for node in clean.nodes if not node.parents}
        broken = {slip.letter: run(program, slip.engine).gradients for slip in SLIPS}
        found.append(Result(program, inputs, clean.gradients, broken))
    return tuple(found)


# ----- Where minigrad does the same -----


@dataclass(frozen=True)
class Place:
    """A function or class of minigrad."""

    name: str
    file: str
    line: int
    code: str


COUNTERPARTS = (
    ("Value", "minigrad/tensor.py", "Tensor"),
    ("add", "minigrad/elementwise.py", "add"),
    ("mul", "minigrad/elementwise.py", "mul"),
    ("Value.__mul__", "minigrad/tensor.py", "apply"),
    ("tape", "minigrad/tensor.py", "topological_order"),
    ("backward", "minigrad/tensor.py", "walk"),
    ("+=", "minigrad/tensor.py", "accumulate"),
)
"""A name of the engine, and the file and the name of what does the same in minigrad."""


def counterparts() -> dict[str, Place]:
    """Return what does the same in minigrad, by the name here."""
    return {ours: _place(file, name) for ours, file, name in COUNTERPARTS}


def rule_of_mul() -> str:
    """Return the line of minigrad that corresponds to the rule of `mul`."""
    code = counterparts()["mul"].code.splitlines()
    return next(line.strip() for line in code if line.strip().startswith("return unbroadcast"))


def _place(file: str, name: str) -> Place:
    text = find_engine().sources[file]
    node = next(node for node in _definitions(file) if node.name == name)
    code = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    return Place(name, file, node.lineno, code)


@cache
def _definitions(file: str) -> list[ast.ClassDef | ast.FunctionDef]:
    body = ast.parse(find_engine().sources[file]).body
    return [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
