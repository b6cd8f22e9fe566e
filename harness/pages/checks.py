"""The checks that pages and catalogues bring: invariants, and diagnostics. Nothing is run here.

An *invariant* is the check that a page recommends, as a function that asserts. It is the `python
invariant` block of the section Diagnostic. `lib` is the engine's module, and `rng` a generator with
another seed in each run:

    def gradient_has_the_shape_of_its_leaf(lib, rng):
        a = lib.tensor(rng.normal(size=3), requires_grad=True)
        (a + rng.normal(size=(4, 3))).sum().backward()
        assert a.grad.shape == a.shape

On a page with a recipe it is a function of the log of one run: `def what_is_true(log)`.

A *diagnostic* of a catalogue is a file `diagnostics/NAME.py`. It states what its reader has to know
as literals, and defines the check, which a confined child executes (`harness.runs.job`):

    SEES = "a gradient that is zero everywhere"
    BLIND_TO = "every other wrong number"
    FORWARD_PASSES = 3              # the run itself; another backward pass adds two
    KINDS = ["gradient"]            # optional: the kinds of probes that it can judge

    def check(trial, run):
        '''Raise AssertionError for an alarm; return how many numbers were compared.'''
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from harness.core import read_text
from harness.core.errors import PageError, Sentence
from harness.core.message import message
from harness.pages.catalogue import diagnostic_name
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Fence, Page
from harness.pages.probe import Probe, ProbeKind, parse_python, plain

# ----- Invariants -----

SEEDS = range(5)
"""The seeds with which an invariant is run."""

LogEntries = Sequence[Mapping[str, float]]
"""The entries of a training log."""


@dataclass(frozen=True)
class Invariant:
    """The function of an invariant, and the text that defines it."""

    page: str
    function: str
    source: str
    path: str
    line: int
    """Where `source` starts in the file at `path` (1-based)."""

    def tests(self, *, shared: bool = False) -> tuple[Probe, ...]:
        """Return a test for each seed; the first runs the text that a reader pastes into a file.

        `shared` is as for a probe.
        """
        first, *seeds = SEEDS
        name, pasted = f"{self.page}-{first}", self.pasted()
        added = pasted.count("\n") - self.source.rstrip("\n").count("\n")
        test = self._test(name, f"test_{self.function}", pasted, shared=shared)
        return (
            replace(test, line=max(1, self.line - added)),
            *(
                self._test(f"{self.page}-{n}", self.function, self.source, shared=shared, seed=n)
                for n in seeds
            ),
        )

    def pasted(self) -> str:
        """Return the invariant as a test that runs on its own, in a file for pytest."""
        lines = self.source.rstrip("\n").splitlines()
        body = ast.parse(self.source).body
        (test,) = (n for n in body if isinstance(n, ast.FunctionDef) and n.name == self.function)
        before = lines[: test.lineno - 1]
        draws = any(isinstance(n, ast.Name) and n.id == "rng" for n in ast.walk(test))
        imports = ["import minigrad as lib"]
        named = {a.asname for n in body if isinstance(n, ast.Import) for a in n.names}
        if draws and "np" not in named:
            imports.append("import numpy as np")
        arguments = "rng=np.random.default_rng(0)" if draws else ""
        header = f"def test_{self.function}({arguments}):"
        rest = lines[test.body[0].lineno - 1 :]
        if before and not before[0].startswith(("import ", "from ")):
            before = ["", "", *before]
        while before and not before[-1]:
            before.pop()
        return "\n".join([*imports, *before, "", "", header, *rest])

    def on_log(self, name: str, log: LogEntries) -> Probe:
        """Return a test with this name, of the invariant of a page with a recipe."""
        call = f"import json\n    {self.function}(json.loads({json.dumps(log)!r}))"
        source = f"{self.source}\n\ndef _on_log():\n    {call}\n"
        return self._test(name, "_on_log", source)

    def _test(
        self,
        name: str,
        function: str,
        source: str,
        *,
        shared: bool = False,
        seed: int | None = None,
    ) -> Probe:
        return Probe(
            name=name,
            doc="",
            kind="test",
            leaves=(),
            function=function,
            source=source,
            path=self.path,
            line=self.line,
            takes_lib=seed is not None,
            seed=seed,
            shared=shared,
        )


def invariant_of(page: Page) -> Invariant | None:
    """Return the page's invariant, if it has one.

    Raises PageError, with the line, for blocks that do not hold exactly one such function.
    """
    fences = [fence for fence in page.fences if fence.is_invariant]
    if not fences:
        return None
    if len(fences) > 1:
        remedy = "assert everything in one function"
        raise PageError(page.path, fences[1].line - 1, "a second invariant", remedy)
    (fence,) = fences
    arguments = "log" if isinstance(page.front, TrainingBreak) else "lib, rng"
    function = _read(page.path, fence, arguments)
    return Invariant(page.id, function.name, fence.text, page.path, fence.line)


def _read(path: str, fence: Fence, arguments: str) -> ast.FunctionDef:
    """Return the function of a block, which takes these arguments and asserts something."""
    functions = [
        node
        for node in parse_python(fence.text, path, fence.line, "invariant").body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    remedy = message(
        "write one function `def what_is_true({arguments}):`; helpers start with _",
        arguments=arguments,
    )
    if len(functions) != 1:
        problem = message("the invariant has {count} functions", count=len(functions))
        raise PageError(path, fence.line, problem, remedy)
    (function,) = functions
    line = fence.line + function.lineno - 1
    if (actual := ast.unparse(function.args)) != arguments:
        problem = message(
            "`def {function}({actual})` is not an invariant", function=function.name, actual=actual
        )
        raise PageError(path, line, problem, remedy)
    if not any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        problem = message("`{function}` asserts nothing", function=function.name)
        raise PageError(path, line, problem, "end it with an `assert` statement")
    return function


# ----- Diagnostics -----

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
        wrong = "`check` does not take exactly two arguments"
        raise mistake(checks[-1].lineno, wrong, "write `def check(trial, run):`")
    line = checks[-1].lineno
    return OwnDiagnostic(name, sees, blind, float(passes), tuple(kinds), text, file, line)
