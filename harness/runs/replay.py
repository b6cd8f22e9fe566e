"""What someone types at a prompt, executed on an engine in a confined process of its own.

A session is a list of entries. For each new one, all are executed again, from the same start, and
only what the last one prints is kept: so no process has to be kept alive between two entries, and
one that ends it costs nothing.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from harness.core.run import NumericArray
from harness.engines.engine import Dialect, Engine
from harness.pages.probe import Probe
from harness.runs.isolated import Printout, run_program
from harness.runs.protocol import Program
from harness.runs.trial import compile_at, draw

PROMPT = "<prompt>"
"""The name of the file that an entry is compiled from."""


class _Start(msgspec.Struct):
    """What an entry can use besides the engine."""

    dialect: Dialect
    leaves: dict[str, tuple[str, str]]
    """The dtype of each leaf, and its values as JSON."""
    source: str
    entries: list[str]


def replayed(engine: Engine, probe: Probe, entries: Sequence[str]) -> Printout:
    """Return what the last entry prints on this engine, after all others.

    `lib` is the engine, `np` NumPy; the leaves of the probe and its function have their names.
    """
    leaves = {
        name: (values.dtype.str, json.dumps(values.tolist()))
        for name, values in draw(probe).items()
    }
    start = _Start(engine.dialect, leaves, probe.source, list(entries))
    text = msgspec.json.encode(start).decode()
    source = f"from harness.runs.replay import replay\nreplay({text!r})\n"
    return run_program(
        Program(source, PROMPT, 1, root=str(engine.root), sources=dict(engine.sources))
    )


def replay(text: str) -> None:
    """In a child: execute the entries, and print what the last one prints or raises."""
    from harness.engines.adapter import open_library  # only a child needs it

    start = msgspec.json.decode(text, type=_Start)
    library = open_library(start.dialect, importlib.import_module(start.dialect.module))
    names: dict[str, object] = {"__name__": "__main__", "np": np, "lib": library.module}
    exec(compile_at(start.source, PROMPT, 1), names)  # noqa: S102  the probe
    for name, values in _values(start.leaves).items():
        names[name] = library.leaf(values)
    *before, last = start.entries
    for entry in before:
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            _execute(entry, names)
    try:
        _execute(last, names)
    except BaseException as error:  # an entry may also exit
        print(f"{type(error).__name__}: {error}".removesuffix(": "))


def _values(leaves: Mapping[str, tuple[str, str]]) -> dict[str, NumericArray]:
    return {name: np.array(json.loads(data), dtype) for name, (dtype, data) in leaves.items()}


def _execute(entry: str, names: dict[str, object]) -> None:
    """Execute an entry; the value of a last expression is printed, as Python's prompt does."""
    tree = ast.parse(entry, PROMPT)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, PROMPT, "exec"), names)  # noqa: S102  it is what was typed
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), PROMPT, "eval"), names)  # noqa: S307
        if value is not None:
            print(repr(value))
