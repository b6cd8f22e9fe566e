"""The check of a myth: its program runs, and prints what the page says."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from harness.core.finding import Finding
from harness.experiment.myth import find_exhibit, lines, programs, run_myth
from harness.pages.page import Page
from harness.runs.program import Program
from harness.sandbox.limits import Limits

FOREIGN_KEYS = ("sites", "transformer", "expect", "diagnostics", "pardon")
"""Keys of the front matter that say something about a patch; a myth has none."""

LONGEST = 25
"""Lines of a program that is read at a glance."""

AT_HAND = {"numpy", "minigrad"} | set(sys.stdlib_module_names)
"""What every program may import."""


def check_myth(page: Page, limits: Limits | None = None) -> Iterator[Finding]:
    """What is wrong with the page's program, and with what the page says of it.

    Raises PageError where there are several programs.
    """
    if not programs(page):
        return  # the check of the prose says so
    exhibit = find_exhibit(page)
    yield from _check_front(page)
    yield from _check_source(page, exhibit.program)
    report = run_myth(page, limits)
    line = (exhibit.says or exhibit.program).line
    if report.skipped:
        problem = f"the program was not run: {report.skipped}"
        yield Finding(page.path, exhibit.program.line, problem, "install it, and check again", 0)
    elif report.failure:
        problem = f"the program does not end well: {report.failure}"
        remedy = "what it shall show is printed; an expected exception is caught in the program"
        yield Finding(page.path, exhibit.program.line, problem + _quoted(report.printed), remedy)
    elif not report.printed:
        yield Finding(page.path, line, "the program prints nothing", "print what it shows")
    elif report.says is None:
        problem = f"the page does not say what the program prints{_quoted(report.printed)}"
        remedy = "write it as a ```text block right after the program, once you can say why"
        yield Finding(page.path, line, problem, remedy)
    elif not report.agrees:
        rows = "\n".join(report.differences)
        problem = f"the program does not print what the page says (- the page, + here)\n{rows}"
        yield Finding(page.path, line, problem, "find out which of the two is wrong")


def _quoted(printed: str | None) -> str:
    rows = [f"\n  {row}" for row in lines(printed or "")]
    return "".join(["; it printed", *rows]) if rows else ""


def _check_front(page: Page) -> Iterator[Finding]:
    for key in FOREIGN_KEYS:
        if getattr(page.front, key):
            remedy = "leave it out: it says something of a patch, and a myth has none"
            yield Finding(page.path, page.line_of(key), f"key `{key}` on a myth", remedy)


def _check_source(page: Page, program: Program) -> Iterator[Finding]:
    length = program.source.count("\n")
    if length > LONGEST:
        problem = f"a program of {length} lines is not read at a glance (about {LONGEST})"
        yield Finding(page.path, program.line, problem, "cut what the claim does not need", 0)
    imported = dict(_imports(program))
    for name, line in imported.items():
        if name not in AT_HAND and name not in program.needs:
            problem = f"the program imports {name}, which not everybody has installed"
            yield Finding(page.path, line, problem, f'say so in front: `needs = ["{name}"]`')
    for name in program.needs:
        if name not in imported:
            problem = f"key `needs` names {name}, which the program does not import"
            yield Finding(page.path, page.line_of("needs"), problem, "leave it out")


def _imports(program: Program) -> Iterator[tuple[str, int]]:
    """Top-level modules that the program imports, and on which line of the page."""
    try:
        tree = ast.parse(program.source)
    except (SyntaxError, ValueError):
        return  # the run will say so
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for name in [module] if module else [alias.name for alias in node.names]:
                yield name.partition(".")[0], program.line + node.lineno - 1
