"""The check of an operator: each mutant of its rule survives one suite, and the other kills it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from harness.check import Finding
from harness.experiment.baseline import Context
from harness.grade.operator_suites import (
    RECOMMENDED,
    RULE,
    WEAK,
    block_of,
    mutants_of,
    run_operator,
)
from harness.grade.rule_mutants import LIBRARIES
from harness.pages.front_matter import Operator
from harness.pages.page import Page
from harness.rules import LOOKED_FOR, find_rules


def check_operator(page: Page, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with an operator's rule, its suites, and what they find.

    Raises PageError for a section without its block, and HunkError for a patch that cannot be read.
    """
    rule, weak, recommended = (block_of(page, name) for name in (RULE, WEAK, RECOMMENDED))
    rules = find_rules({"rule.py": rule.text})
    if not rules:
        yield Finding(page.path, rule.line, f"no rule is found: {LOOKED_FOR}", "write one of these")
        return
    front = page.front_as(Operator)
    needed = {LIBRARIES[one.form] for one in rules if one.form in LIBRARIES}
    for name in sorted(needed - set(front.needs)):
        remedy = f'write `needs = ["{name}"]`'
        yield Finding(page.path, page.line_of("needs"), f"the rule needs {name}", remedy)
    for name in (*sorted(needed), *front.needs):
        if find_spec(name) is None:
            problem = f"the suites were not run: {name} is not installed"
            yield Finding(page.path, rule.line, problem, f"pip install {name}, and check again", 0)
            return
    if not mutants_of(page)[1]:
        remedy = "change the patch or the rule, so that it has a site"
        yield Finding(page.path, rule.line, "the patch has no site in the rule", remedy)
        return
    result = run_operator(page, context.baseline.cache)
    if result.problem:
        problem = f"the suites cannot be run: {result.problem}"
        yield Finding(page.path, weak.line, problem, "correct the rule or the suites")
    for test in result.failed:
        problem = f"`{test}` fails on the unchanged rule"
        yield Finding(page.path, weak.line, problem, "correct the rule or the test")
    for fate in result.fates:
        if fate.weak:
            problem = f"`{fate.weak[0]}` notices {fate.mutant}, which must survive this suite"
            remedy = "weaken the test as authors do, or narrow the patch"
            yield Finding(page.path, weak.line, problem, remedy)
        if not fate.recommended:
            problem = f"no test notices {fate.mutant}"
            remedy = "add the assertion or the inputs that show it, or narrow the patch"
            yield Finding(page.path, recommended.line, problem, remedy)
