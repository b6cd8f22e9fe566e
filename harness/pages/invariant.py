"""An invariant: the check that a page recommends, as a function that asserts.

It is the `python invariant` block of the section Diagnostic. `lib` is the engine's module, and
`rng` a generator with another seed in each run:

    def gradient_has_the_shape_of_its_leaf(lib, rng):
        a = lib.tensor(rng.normal(size=3), requires_grad=True)
        (a + rng.normal(size=(4, 3))).sum().backward()
        assert a.grad.shape == a.shape

On a page with a recipe it is a function of the log of one run: `def what_is_true(log)`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import PageError
from harness.core.message import message
from harness.pages.front_matter import TrainingBreak
from harness.pages.page import Fence, Page
from harness.pages.probe import Probe, parse_python

SEEDS = range(5)
"""The seeds with which an invariant is run."""

Log = Sequence[Mapping[str, float]]
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
        """Return a test for each seed; `shared` is as for a probe."""
        return tuple(
            self._test(f"{self.page}-{seed}", self.function, self.source, shared=shared, seed=seed)
            for seed in SEEDS
        )

    def on_log(self, name: str, log: Log) -> Probe:
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
