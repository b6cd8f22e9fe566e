"""The check of an exercise: the suite is as weak as the page says, and the answer kills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.check.rewrites import rewrites
from harness.core.finding import Finding
from harness.experiment.context import Context
from harness.experiment.lab import run_lab
from harness.grade.exercise import (
    SuiteFate,
    SuiteTest,
    judge_tests,
    passes,
    read_answer,
    read_suite,
    run_suite,
)
from harness.grade.probes import attack_break, check_soundness, prepare_bare
from harness.pages.front_matter import Exercise
from harness.pages.page import Page
from harness.pages.probe import Probe

ANSWER_SEED = b"the answer of a page"
"""Not secret: a page's answer may be trusted, and what is run again is cached."""


def check_exercise(page: Page, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the suite and with the answer of an exercise.

    Raises PageError for a suite or an answer that cannot be read.
    """
    front = page.front_as(Exercise)
    yield from _check_blocks(page)
    if not front.breaks:
        return  # the check of the names reports it
    yield from _check_links(page, front, context)
    if any(fence.section == "The suite" for fence in page.fences):
        yield from _check_suite(page, front, context)
    if answer := read_answer(page):
        yield from _check_answer(page, front, answer, context)


def _check_blocks(page: Page) -> Iterator[Finding]:
    for fence in page.fences:
        if fence.info[:1] == ("diff",):
            remedy = "say in words what the break does, and link to its page"
            yield Finding(page.path, fence.line - 1, "a ```diff block on an exercise", remedy)


def _check_links(page: Page, front: Exercise, context: Context) -> Iterator[Finding]:
    """Each break needs a link, so that learners can read on."""
    for name in front.breaks:
        if f"{name}.md)" not in page.section("The break"):
            path = context.catalogue.path(name)
            remedy = f"link to it: `[{name}](../{path.parent.name}/{path.name})`"
            problem = f"the section `The break` does not link to `{name}`"
            yield Finding(page.path, page.body_line, problem, remedy)


# ----- The suite -----


def _check_suite(page: Page, front: Exercise, context: Context) -> Iterator[Finding]:
    suite = run_suite(page, context)
    line = read_suite(page)[0].line
    for test in suite:
        if test.failure:
            problem = f"`{test.test}` fails on the unbroken engine: {test.failure}"
            yield Finding(page.path, line, problem, "correct the test: it must pass here")
    for name in front.breaks:
        for test in suite:
            if not (fate := test.on[name]).passes and not test.failure:
                problem = f"`{test.test}` catches `{name}`, which must pass: {fate.why}"
                remedy = "weaken that test as the course did, or move the break to `kills`"
                yield Finding(page.path, line, problem, remedy)
    for name in front.kills:
        if passes(suite, name):
            problem = f"the suite does not catch `{name}`, which is among `kills`"
            yield Finding(page.path, page.line_of("kills"), problem, "remove it, or add the test")
    yield from _check_asserting(page, front, suite, context)


def _check_asserting(
    page: Page, front: Exercise, suite: Sequence[SuiteTest], context: Context
) -> Iterator[Finding]:
    """Each test must fail on `kills` or on an engine that is wrong everywhere.

    Only a failed assertion counts: an exception from the engine would stop any program.
    """
    sabotage = context.catalogue.conventions.controls.sabotage
    sabotaged: dict[str, SuiteFate] = {}
    if sabotage is not None:
        tests = read_suite(page)
        control = context.catalogue.page(sabotage, "control")
        sabotaged = judge_tests(prepare_bare(control, tests, context), context.baseline)
    for test in suite:
        fates = [*(test.on[name] for name in front.kills)]
        fates += [sabotaged[test.test]] if test.test in sabotaged else []
        if not any(fate.by_assertion for fate in fates):
            places = f"`{sabotage}` or on any of `kills`" if sabotage else "any of `kills`"
            problem = f"no assertion of `{test.test}` fails on {places}"
            remedy = "add an assertion, or add a break that it catches to `kills`"
            yield Finding(page.path, read_suite(page)[0].line, problem, remedy)


# ----- The answer -----


def _check_answer(
    page: Page, front: Exercise, answer: Sequence[Probe], context: Context
) -> Iterator[Finding]:
    line, missing = answer[0].line, _missing_libraries(context)
    unsound = [result for result in check_soundness(answer, context) if result.problems]
    for result in unsound:
        listed = "; ".join(map(str, result.problems))
        problem = f"the answer `{result.probe}` is not a sound probe: {listed}"
        remedy = "correct the probe: a correct engine passes it"
        yield Finding(page.path, line, problem, remedy)
    if unsound:
        return
    idle = {probe.name for probe in answer}
    for name in front.breaks:
        cache = context.baseline.cache
        attack = attack_break(name, answer, context, ANSWER_SEED, rounds=1, cache=cache)
        idle -= attack.killed_by.keys()
        if not attack.killed_by and missing and attack.stage == "not-revealed":
            problem = f"the answer does not kill `{name}` here; not installed: {missing}"
            yield Finding(page.path, line, problem, f"install {missing} to decide", 0)
        elif not attack.killed_by:
            where = f"{attack.stage}, {attack.why}"
            problem = f"the answer does not kill `{name}`: {where}"
            yield Finding(page.path, line, problem, "add the probe on which a diagnostic alarms")
    for probe in () if missing else sorted(idle):
        problem = f"the answer `{probe}` kills none of `breaks`"
        yield Finding(page.path, line, problem, "remove it, or change it so that it kills one")
    yield from _check_variants(page, answer, context)


def _missing_libraries(context: Context) -> str:
    """Return the libraries that a diagnostic would compare with but that are not installed."""
    missing = context.baseline.missing()
    return ", ".join(
        sorted({str(one.library) for one in context.baseline.diagnostics if one.name in missing})
    )


def _check_variants(page: Page, answer: Sequence[Probe], context: Context) -> Iterator[Finding]:
    """The answer must not raise an alarm on a correct rewrite, or on another choice at a kink."""
    correct = rewrites(context)
    for variant in correct.experiments:
        for run in run_lab(replace(variant, probes=tuple(answer)), correct.baseline).runs:
            for name, message in run.alarms.items():
                problem = f"`{name}` raises an alarm on the correct `{variant.page.id}`: {message}"
                remedy = f"choose other values in `{run.probe}`: it kills correct engines too"
                yield Finding(page.path, answer[0].line, problem, remedy)
