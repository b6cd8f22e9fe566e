"""Diagnostics that a catalogue brings, `diagnostics/NAME.py`: read, and never run, by this process.

The file states what its reader has to know as literals, and defines the check, which a confined
child executes (`harness.runs.job`):

    SEES = "a gradient that is zero everywhere"
    BLIND_TO = "every other wrong number"
    FORWARD_PASSES = 3              # the run itself; another backward pass adds two
    KINDS = ["gradient"]            # optional: the kinds of probes that it can judge

    def check(trial, run):
        '''Raise AssertionError for an alarm; return how many numbers were compared.'''
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from harness.core import read_text
from harness.core.errors import PageError, Sentence
from harness.core.message import message
from harness.pages.catalogue import diagnostic_name
from harness.pages.probe import ProbeKind, parse_python, plain

CHECK = "check"
"""The function of the file that judges a run."""

LONGEST = 300
"""The most characters of a description: it is a cell of a table."""


@dataclass(frozen=True)
class OwnDiagnostic:
    """The text of a diagnostic, and what it states about itself."""

    name: str
    sees: str
    blind: str
    passes: float
    kinds: tuple[ProbeKind, ...]
    text: str
    path: str
    line: int
    """Of its function `check`."""


def read_diagnostic(path: Path) -> OwnDiagnostic:
    """Return the diagnostic in a file. Raises PageError, with the line, for a mistake in it."""
    text, file, name = read_text(path), str(path), diagnostic_name(path)

    def mistake(line: int, problem: Sentence, remedy: Sentence) -> PageError:
        return PageError(file, line, problem, remedy)

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        remedy = "use lower-case letters, digits and underscores, as in `same_twice.py`"
        problem = message("`{name}` cannot be the name of a diagnostic", name=name)
        raise mistake(1, problem, remedy)
    module = parse_python(text, file, 1, "diagnostic")
    stated = {
        node.targets[0].id: node
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    def literal(key: str) -> tuple[object, int]:
        """Return the value of a constant, and its line; None if there is none."""
        if key not in stated:
            return None, 1
        try:
            return ast.literal_eval(stated[key].value), stated[key].lineno
        except (ValueError, TypeError, RecursionError, MemoryError):
            return None, stated[key].lineno

    def sentence(key: str, remedy: Sentence) -> str:
        value, line = literal(key)
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
            problem = message(
                "`{key}` is not a text of at most {most} characters", key=key, most=LONGEST
            )
            raise mistake(line, problem, remedy)
        return " ".join(plain(value).split())

    sees = sentence("SEES", 'say what it catches: `SEES = "..."`')
    blind = sentence("BLIND_TO", 'say what it cannot catch by construction: `BLIND_TO = "..."`')
    passes, line = literal("FORWARD_PASSES")
    if isinstance(passes, bool) or not isinstance(passes, int | float) or not 0 < passes < 1e9:
        cost = "state its cost: `FORWARD_PASSES = 3` is the run itself; a backward pass counts 2"
        raise mistake(line, "`FORWARD_PASSES` is not a positive number", cost)
    kinds, line = literal("KINDS") if "KINDS" in stated else (["gradient"], 1)
    known = [kind for kind in get_args(ProbeKind) if kind != "test"]
    if not isinstance(kinds, list | tuple) or not kinds or any(k not in known for k in kinds):
        wanted = message(
            'write `KINDS = ["gradient"]`; the kinds are {kinds}', kinds=", ".join(known)
        )
        raise mistake(line, "`KINDS` is not a list of kinds of probes", wanted)
    checks = [n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == CHECK]
    if not checks:
        raise mistake(1, "it defines no function `check`", "write `def check(trial, run):`")
    spec = checks[-1].args
    if len(spec.args) != 2 or spec.posonlyargs or spec.kwonlyargs or spec.vararg or spec.kwarg:
        arguments = "`check` does not take exactly two arguments"
        raise mistake(checks[-1].lineno, arguments, "write `def check(trial, run):`")
    line = checks[-1].lineno
    return OwnDiagnostic(name, sees, blind, float(passes), tuple(kinds), text, file, line)
