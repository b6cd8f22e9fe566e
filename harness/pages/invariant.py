"""An invariant: the check that a page recommends, as a function that asserts.

It is the `python invariant` block of the section Diagnostic. `lib` is the engine's module, and
`rng` a generator with another seed in each run:

    def gradient_has_the_shape_of_its_leaf(lib, rng):
        a = lib.tensor(rng.normal(size=3), requires_grad=True)
        (a + rng.normal(size=(4, 3))).sum().backward()
        assert a.grad.shape == a.shape
"""

from __future__ import annotations

import ast

from harness.core.errors import PageError
from harness.pages.page import Fence, Page
from harness.pages.probe import Probe, parse_python

SEEDS = range(5)
"""The seeds with which an invariant is run."""


def invariant_of(page: Page) -> tuple[Probe, ...]:
    """Return the page's invariant, as one test for each seed; empty if it has none.

    Raises PageError, with the line, for a block that does not hold exactly one such function.
    """
    fences = [fence for fence in page.fences if is_invariant(fence)]
    if not fences:
        return ()
    if len(fences) > 1:
        remedy = "assert everything in one function"
        raise PageError(page.path, fences[1].line - 1, "a second invariant", remedy)
    function, (fence,) = _function(page.path, fences[0]), fences
    return tuple(
        Probe(
            name=f"{page.id}-{seed}",
            doc="",
            kind="test",
            leaves=(),
            function=function.name,
            source=fence.text,
            path=page.path,
            line=fence.line,
            takes_lib=True,
            seed=seed,
        )
        for seed in SEEDS
    )


def assertion_of(page: Page) -> str:
    """Return the last `assert` statement of the page's invariant; empty if it has none."""
    for fence in page.fences:
        if is_invariant(fence):
            return ast.unparse(_assertions(_function(page.path, fence))[-1])
    return ""


def is_invariant(fence: Fence) -> bool:
    """Whether a block is a page's invariant."""
    return fence.info[:2] == ("python", "invariant")


def _function(path: str, fence: Fence) -> ast.FunctionDef:
    """Return the function of the block; helpers start with an underscore."""
    functions = [
        node
        for node in parse_python(fence.text, path, fence.line, "invariant").body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    remedy = "write one function `def what_is_true(lib, rng):`; helpers start with an underscore"
    if len(functions) != 1:
        problem = f"the invariant has {len(functions)} functions"
        raise PageError(path, fence.line, problem, remedy)
    (function,) = functions
    line = fence.line + function.lineno - 1
    if (arguments := ast.unparse(function.args)) != "lib, rng":
        problem = f"`def {function.name}({arguments})` is not an invariant"
        raise PageError(path, line, problem, remedy)
    if not _assertions(function):
        problem = f"`{function.name}` asserts nothing"
        raise PageError(path, line, problem, "end it with an `assert` statement")
    return function


def _assertions(function: ast.FunctionDef) -> list[ast.Assert]:
    found = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    return sorted(found, key=lambda node: node.lineno)
