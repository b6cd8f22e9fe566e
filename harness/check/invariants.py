"""The check of a break's invariant and questions: both are run.

The invariant must hold on the unbroken engine and on every variant, and fail on the broken one,
each time with several seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.check.rewrites import rewrites
from harness.core.errors import PageError
from harness.core.finding import Finding, finding_from
from harness.core.run import Failure, Run
from harness.experiment.context import Context
from harness.experiment.patching import Experiment
from harness.experiment.questions import Value, answers
from harness.grade.submission import prepare_bare
from harness.pages.front_matter import Break
from harness.pages.invariant import invariant_of
from harness.pages.page import Page
from harness.pages.probe import Probe

FEWER = "make it more tolerant, or state in `except` why this correct engine violates it"


def check_invariant(page: Page, context: Context) -> Iterator[Finding]:
    """Yield where the page's invariant does not do what an invariant has to do.

    Raises PageError for a block that is not an invariant.
    """
    front = page.front_as(Break)
    tests = invariant_of(page)
    if not tests:
        for name in front.exceptions:
            problem = f"`except` names `{name}`, but the page has no invariant"
            yield Finding(page.path, page.line_of("except"), problem, "remove it")
        return
    if front.no_invariant:
        problem, remedy = "`no_invariant` on a page that has an invariant", "remove one of the two"
        yield Finding(page.path, page.line_of("no_invariant"), problem, remedy)
    line = tests[0].line
    clean = context.baseline.clean(context.engine, tests)
    if failure := _first(run.run for run in clean.values()):
        problem = f"the invariant fails on the unbroken engine: {failure}"
        yield Finding(page.path, line, problem, "correct it: it must hold on a correct engine")
        return
    yield from _check_variants(page, front.exceptions, tests, context)
    experiment = prepare_bare(page, tests, context)
    for run in context.baseline.broken(experiment.clean, experiment.broken, tests):
        if (failure := run.failure) is None or failure.type != "AssertionError":
            how = f"ends before any assertion fails: {failure}" if failure else "holds"
            problem = f"the invariant {how} on the broken engine (seed {_seed(run, tests)})"
            remedy = "let it assert what the break violates, whatever the seed"
            yield Finding(page.path, line, problem, remedy)
            return


def check_questions(page: Page, experiment: Experiment, context: Context) -> Iterator[Finding]:
    """Yield the questions of a page that its runs do not answer."""
    front = page.front_as(Break)
    for question, answer in zip(front.ask, answers(experiment, context.baseline), strict=True):
        if isinstance(answer, PageError):
            yield finding_from(answer, page.path)
        elif question.choices and shown(answer) not in question.choices:
            problem = f"the answer to “{question.question}” is {shown(answer)}, not a choice"
            remedy = f"the choices are {', '.join(question.choices)}"
            yield Finding(page.path, page.line_of("ask", "choices"), problem, remedy)


def shown(answer: Value) -> str:
    """Return an answer as text; numbers have three significant digits."""
    if isinstance(answer, float):
        return f"{answer:.3g}"
    if isinstance(answer, list):
        return f"[{', '.join(map(shown, answer))}]"
    return str(answer)


def _check_variants(
    page: Page, exceptions: Mapping[str, str], tests: Sequence[Probe], context: Context
) -> Iterator[Finding]:
    correct = rewrites(context)
    names = {experiment.page.id for experiment in correct.experiments}
    for name in exceptions.keys() - names:
        problem = f"`except` names `{name}`, which is not a variant"
        yield Finding(page.path, page.line_of("except"), problem, "remove it")
    for variant in correct.experiments:
        variant = replace(variant, probes=tuple(tests))
        runs = correct.baseline.broken(variant.clean, variant.broken, tests)
        failure, name = _first(runs), variant.page.id
        if failure and name not in exceptions:
            problem = f"the invariant fails on the correct `{name}`: {failure}"
            yield Finding(page.path, tests[0].line, problem, FEWER)
        elif name in exceptions and not failure:
            problem = f"the invariant holds on `{name}`, which `except` names"
            yield Finding(page.path, page.line_of("except"), problem, "remove it")


def _first(runs: Iterator[Run] | Sequence[Run]) -> Failure | None:
    return next((run.failure for run in runs if run.failure), None)


def _seed(run: Run, tests: Sequence[Probe]) -> int | None:
    return next(test.seed for test in tests if test.name == run.probe)
