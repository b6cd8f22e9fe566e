"""A rewritten function does exactly the same: results, order of evaluation, exceptions."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from random import Random
from types import FunctionType
from typing import Any

import pytest

from harness.grade.rewriting import FunctionNode, Rewriter

FUNCTIONS = """
def branches(log, x):
    "A docstring."
    y = log(1) if x > 1 else log(2)
    if x == 2:
        y += log(3)
    elif not log(0):
        y = y - 1
    else:
        y = 7
    return (y, log(4)) if y != 3 else None

def order(log, x):
    total = log(1) + log(2) * log(3) - [log(4), log(5)][log(0)]
    total += log(6)
    pair = [total, log(7), (walrus := log(8)), walrus, x, log(9)][log(3):log(5)]
    log.calls.append([walrus, (walrus := 2), walrus, log(walrus)])
    log.calls[log(0)] = log(10) if pair else log(11)
    log(*[log(12)]) < log(13) < log(14)
    return log(total) and log.__name__ or log("last")

def loops(log, x):
    out, i = [], 0
    while i < x:
        i += 1
        if i % 2 == 0:
            continue
        for j, y in enumerate(range(i), start=log(1)):
            out.append((j, y))
            if 3 < y:
                break
        else:
            out.append(log("else"))
    return sum(a for a, _ in out), [i for i in out if x is not None], {i: x for i in range(2)}

def closures(log, x):
    count = 0
    scale = log(2)
    def add(y, scale=scale):
        nonlocal count
        count += y * scale
        return lambda z: (count, z, x)
    return count, add(x)(log(3)), count, add(1)(2), count, log(4)

def generator(log, x):
    got = yield log(1)
    yield got
    for value in range(x):
        sent = yield value
        if sent is None:
            yield log(f"{value!r:>4} {x}")
    return log("done")

def errors(log, x):
    try:
        y = log(1) / (x - 2)
    except ZeroDivisionError as error:
        y = str(error)
        raise ValueError(y) from error
    finally:
        log("finally")
    with log.context as entered:
        del y
    return log(entered), y

def arguments(log, x, *rest, flag=False, **more):
    del flag
    named = log.call(b=x, a=1)
    return dict(b=1, a=x), named, rest, log.call(c=log(1), a=log(2))

def shadowed(log, x):
    first = [x for x in range(x)]
    second = (lambda first: first + 1)(x)
    class Inner:
        first = x
        third = second
    return first, Inner.first, Inner.third, log(2) < x < log(4), locals().keys() >= {"first"}

class Base:
    def method(self, log, x):
        return log("base"), x

class Derived(Base):
    def method(self, log, x):
        out = super().method(log, x + 1)
        match out:
            case ("base", 3):
                return log("three"), self.__class__.__name__, __class__.__name__
            case (name, number):
                pass
        assert number == x + 1, "no"
        return name, number

def method(log, x):
    return Derived().method(log, x)
"""

NAMES = ("branches", "order", "loops", "closures", "generator", "errors", "arguments", "shadowed")


class Log:
    """Returns what it is called with, and records all calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.__name__ = "log"

    def __call__(self, value: Any) -> Any:
        self.calls.append(value)
        return value

    def call(self, **named: Any) -> Any:
        self.calls.append(sorted(named.items()))
        return named

    @property
    def context(self) -> "Log":
        self.calls.append("context")
        return self

    def __enter__(self) -> str:
        self.calls.append("enter")
        return "entered"

    def __exit__(self, *_: object) -> None:
        self.calls.append("exit")


def rewritten(text: str, seed: int) -> str:
    tree, numbers = ast.parse(text), iter(range(10_000))
    rewriter = Rewriter(
        Random(seed), lambda: f"fresh_{next(numbers)}", rebound=frozenset(("count", "walrus"))
    )
    for node in list(ast.walk(tree)):
        if isinstance(node, FunctionNode):
            if seed % 2:
                node.body = [*node.body[:1], *rewriter.spell_out(node.body[1:])]
            rewriter.rewrite(node)
    return ast.unparse(ast.fix_missing_locations(tree))


def outcome(text: str, name: str, x: int) -> Sequence[Any]:
    """What a function returns or raises, and all that it calls meanwhile."""
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102  a sample
    log = Log()
    try:
        result = names[name](log, x)
        if inspect.isgenerator(result):
            result = list(_driven(result))
    except Exception as error:
        result = type(error), str(error), type(error.__cause__)
    return result, log.calls, inspect.signature(names[name]), names[name].__doc__


def _driven(generator: Any) -> Iterator[Any]:
    yield next(generator)
    try:
        yield generator.send("sent")
        while True:
            yield next(generator)
    except StopIteration as end:
        yield end.value


@pytest.mark.parametrize("name", [*NAMES, "method"])
def test_a_rewritten_function_does_the_same_in_the_same_order(name: str) -> None:
    texts = {rewritten(FUNCTIONS, seed) for seed in range(10)}
    assert len(texts) == 10
    for x in (1, 2, 5):
        expected = outcome(FUNCTIONS, name, x)
        if name == "errors":  # the message of an UnboundLocalError names the variable
            expected = expected[0][:1], *expected[1:]
        for text in texts:
            observed = outcome(text, name, x)
            if name == "errors":
                observed = observed[0][:1], *observed[1:]
            assert observed == expected, text


def test_each_kind_of_rewrite_occurs() -> None:
    text = "".join(rewritten(FUNCTIONS, seed) for seed in range(15))
    for each in ("1 < x", "(log,)[0]", " if not x", "a=1, b=x", "'.find('", "else:\n        fresh"):
        assert each in text
    assert " got" not in text  # a local variable


@pytest.mark.parametrize("value", [True, False])
def test_a_condition_always_has_its_value_and_is_not_folded(value: bool) -> None:
    for seed in range(60):
        condition = ast.unparse(Rewriter(Random(seed), str).condition(value))
        code = compile(condition, "condition", "eval")
        assert eval(code, {"__builtins__": {}}) is value  # noqa: S307  our own
        assert len(code.co_code) > 20


def test_a_condition_raises_no_audit_event() -> None:
    """A suite with an audit hook would see which function evaluates one."""
    conditions = [ast.unparse(Rewriter(Random(seed), str).condition(True)) for seed in range(20)]
    codes = [compile(condition, "condition", "eval") for condition in conditions]
    functions = [FunctionType(code, {}) for code in codes]
    events: list[str] = []
    listening = True
    sys.addaudithook(lambda event, _: events.append(event) if listening else None)
    for function in functions:
        function()
    listening = False
    assert events == []
