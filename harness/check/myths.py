"""The check of a myth: the program runs, and prints what the page says."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from harness.check.runner import run_page
from harness.core.errors import PageError
from harness.core.finding import Finding
from harness.experiment.context import Context
from harness.experiment.myth import SECTION, Exhibit, MythReport, find_exhibit, lines
from harness.pages.page import Page
from harness.pages.probe import parse_python
from harness.runs.protocol import Program

LONGEST = 25
"""The largest number of lines of a program that can be read at a glance."""

AVAILABLE = {"numpy", "minigrad"} | set(sys.stdlib_module_names)
"""Modules that every program may import."""


def check_myth(page: Page, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the page's program, and with what the page says that it prints.

    Raises PageError if there are several programs.
    """
    if not page.programs(SECTION):
        return  # the check of the prose reports it
    exhibit = find_exhibit(page)
    yield from _check_source(page, exhibit.program)
    report = run_page(page, context)
    assert isinstance(report, MythReport)
    yield from _check_report(page, exhibit, report)


def _check_report(page: Page, exhibit: Exhibit, report: MythReport) -> Iterator[Finding]:
    line = (exhibit.says or exhibit.program).line
    if report.skipped:
        problem = f"the program was not run: {report.skipped}"
        yield Finding(page.path, exhibit.program.line, problem, "install it, and check again", 0)
    elif report.failure:
        problem = f"the program fails: {report.failure}{_quoted(report.printed)}"
        remedy = "correct the program; it must catch an exception that it wants to show"
        yield Finding(page.path, exhibit.program.line, problem, remedy)
    elif not report.printed:
        yield Finding(page.path, line, "the program prints nothing", "print what it shows")
    elif report.says is None:
        problem = f"the page does not say what the program prints{_quoted(report.printed)}"
        remedy = "once you can explain it, write it as a ```text block directly after the program"
        yield Finding(page.path, line, problem, remedy)
    elif not report.agrees:
        rows = "\n".join(report.differences)
        problem = f"the program does not print what the page says (- page, + program)\n{rows}"
        yield Finding(page.path, line, problem, "find out which of the two is wrong")


def _quoted(printed: str | None) -> str:
    rows = [f"\n  {row}" for row in lines(printed or "")]
    return "".join(["; it printed", *rows]) if rows else ""


def _check_source(page: Page, program: Program) -> Iterator[Finding]:
    length = program.source.count("\n")
    if length > LONGEST:
        problem = f"a program of {length} lines cannot be read at a glance (about {LONGEST})"
        yield Finding(page.path, program.line, problem, "remove what the claim does not need", 0)
    imported = dict(_imports(program))
    for name, line in imported.items():
        if name not in AVAILABLE and name not in program.needs:
            problem = f"the program imports {name}, which may not be installed"
            yield Finding(page.path, line, problem, f'add it to the keys: `needs = ["{name}"]`')
    for name in program.needs:
        if name not in imported:
            problem = f"key `needs` names {name}, which the program does not import"
            yield Finding(page.path, page.line_of("needs"), problem, "remove it")


def _imports(program: Program) -> Iterator[tuple[str, int]]:
    """Yield the top-level modules that the program imports, each with its line in the page."""
    try:
        tree = parse_python(program.source, program.path, program.line, "program")
    except PageError:
        return  # running it reports that
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for name in [module] if module else [alias.name for alias in node.names]:
                yield name.partition(".")[0], program.line + node.lineno - 1
