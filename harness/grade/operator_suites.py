"""The rule and the two suites inside an operator's page, run on each mutant of the rule.

They run as an untrusted suite does: see `harness.grade.processes`.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import msgspec

from harness.core.errors import PageError
from harness.core.message import message
from harness.engines.engine import Dialect, Engine
from harness.grade.files import NotGradable, SubmittedFiles
from harness.grade.mutants import Mutant
from harness.grade.plan import GradingPlan
from harness.grade.processes import EngineResults, Processes
from harness.grade.rule_mutants import rule_mutants
from harness.pages.page import Fence, Page
from harness.rules import find_rules
from harness.runs.cache import Cache, ResultKind, key_of

RULE, WEAK, RECOMMENDED = "The rule", "A suite that misses it", "The test to write"
"""The sections with the rule and the suites."""

_FILES = {"test_weak.py": WEAK, "test_recommended.py": RECOMMENDED}


class MutantFate(msgspec.Struct, frozen=True):
    """Which tests fail on a mutant."""

    mutant: str
    line: int
    weak: list[str]
    """Those of the suite that misses it."""
    recommended: list[str]


class OperatorResult(msgspec.Struct, frozen=True):
    """What the suites of a page find on its rule, and on each mutant."""

    problem: str
    """Why nothing was tried."""
    failed: list[str]
    """The tests that fail on the rule itself."""
    fates: list[MutantFate]


OPERATOR_RESULTS: ResultKind[OperatorResult] = ResultKind(
    "operator suites",
    OperatorResult,
    ("core", "pages", "patch", "rules", "grade"),
    lambda result: not result.problem,
)


def run_operator(page: Page, cache: Cache) -> OperatorResult:
    """Run the suites of an operator's page on its rule and on each mutant.

    Raises PageError for a page without one block in each section, and HunkError for a patch that
    cannot be read.
    """
    blocks = [block_of(page, section) for section in (RULE, *_FILES.values())]
    key = key_of(OPERATOR_RESULTS, (page.toml, *(block.text for block in blocks), page.patch_texts))
    (result,) = cache.fetch(OPERATOR_RESULTS, [key], lambda _: [_run(page)])
    return result


def block_of(page: Page, section: str) -> Fence:
    """Return the `python` block of a section. Raises PageError unless there is exactly one."""
    blocks = page.programs(section)
    if len(blocks) != 1:
        line = blocks[1].line if blocks else page.body_line
        problem = message(
            "{count} ```python blocks below `## {section}`", count=len(blocks), section=section
        )
        raise PageError(page.path, line, problem, "write one block")
    return blocks[0]


def mutants_of(page: Page) -> tuple[Engine, list[Mutant]]:
    """Return the page's rule as an engine of one file, and its mutants."""
    root = Path(tempfile.gettempdir()) / "breaklab-rule"  # never written: it is only a name
    engine = Engine("rule", Dialect("rule"), root, {"rule.py": block_of(page, RULE).text})
    return engine, rule_mutants([page], find_rules(engine.sources), engine)


def _run(page: Page) -> OperatorResult:
    engine, mutants = mutants_of(page)
    files = {name: block_of(page, section).text.encode() for name, section in _FILES.items()}
    submitted = SubmittedFiles("suite", files)
    plan = GradingPlan(engine, tuple(mutants), (), b"")
    try:
        with closing(Processes(engine.root, submitted, plan)) as processes:
            processes.collect()
            numbers = range(len(processes.tests))
            clean = processes.observe({}, numbers)
            processes.set_usual_times([clean])
            if clean.failed or clean.problem:
                failed = [processes.tests[test] for test in clean.failed]
                return OperatorResult(clean.problem, failed, [])
            runs = [processes.observe(mutant.files.codes, numbers) for mutant in mutants]
            fates = [
                _fate(mutant, run, processes.tests)
                for mutant, run in zip(mutants, runs, strict=True)
            ]
    except NotGradable as error:
        return OperatorResult(str(error), [], [])
    return OperatorResult("", [], fates)


def _fate(mutant: Mutant, run: EngineResults, tests: list[str]) -> MutantFate:
    failed = [tests[test] for test in run.failed]
    if run.problem:  # the test that did not end
        failed += [name for test, name in enumerate(tests) if test not in run.ended][:1]
    weak, recommended = (
        [name.partition("::")[2] for name in failed if name.startswith(file)] for file in _FILES
    )
    return MutantFate(mutant.id, mutant.files.line, weak, recommended)
