"""The check of a break's invariant, by running it.

It must hold on the unbroken engine and on every variant, and fail on the broken one, each time with
several seeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from harness.check.rewrites import rewrites, variants
from harness.core.errors import PageError
from harness.core.finding import Finding, finding_from
from harness.core.run import Failure, Run
from harness.experiment.baseline import Baseline
from harness.experiment.cached import engine_facts
from harness.experiment.context import Context
from harness.grade.probes import prepare_bare
from harness.pages.front_matter import Break
from harness.pages.invariant import Invariant, invariant_of
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Kind, key_of

UNBROKEN = ""
"""The key of the unbroken engine among the variants."""

FEWER = "make it more tolerant, or state in `except` why this correct engine violates it"

Tests = Sequence[Probe]
"""An invariant as tests, one for each seed."""


class FalseAlarms(msgspec.Struct, frozen=True):
    """Where an invariant fails on correct engines."""

    failures: dict[str, Failure]
    """The first failure on each correct engine on which it fails."""
    repeatable: bool
    """Whether running again would give the same result."""


FALSE_ALARMS: Kind[FalseAlarms] = Kind("false alarms", FalseAlarms)


def check_invariant(page: Page, context: Context, *, applies: bool) -> Iterator[Finding]:
    """Yield what is wrong with the page's invariant.

    It is run only if the page's patch `applies`.
    """
    front = page.front_as(Break)
    try:
        invariant = invariant_of(page)
    except PageError as error:
        yield finding_from(error, page.path)
        return
    if invariant and front.no_invariant:
        problem, remedy = "`no_invariant` on a page that has an invariant", "remove one of the two"
        yield Finding(page.path, page.line_of("no_invariant"), problem, remedy)
    if invariant is None and front.exceptions:
        problem = "`except` on a page that has no invariant"
        yield Finding(page.path, page.line_of("except"), problem, "remove it")
    if invariant and applies:
        yield from _check_runs(page, _tests(page, invariant, context), context)


def prepare_invariants(pages: Sequence[Page], context: Context) -> None:
    """Run the invariants of these pages on the correct engines, all at once, to save time."""
    every = []
    for page in pages:
        with contextlib.suppress(PageError):  # becomes a finding when that page is checked
            if isinstance(page.front, Break) and (invariant := invariant_of(page)):
                every.append(_tests(page, invariant, context))
    _false_alarms(every, context)


def _tests(page: Page, invariant: Invariant, context: Context) -> Tests:
    return invariant.tests(shared=context.catalogue.is_bundled(page))


def _check_runs(page: Page, tests: Tests, context: Context) -> Iterator[Finding]:
    (alarms,) = _false_alarms([tests], context)
    if failure := alarms.failures.get(UNBROKEN):
        problem = f"the invariant fails on the unbroken engine: {failure}"
        remedy = "correct the invariant: it must hold on every correct engine"
        yield Finding(page.path, tests[0].line, problem, remedy)
    else:
        yield from _check_variants(page, tests, alarms.failures, context)
        yield from _check_broken_engine(page, tests, context)


# ----- Correct engines -----


def _check_variants(
    page: Page, tests: Tests, failures: Mapping[str, Failure], context: Context
) -> Iterator[Finding]:
    exceptions = page.front_as(Break).exceptions
    for name in failures.keys() - exceptions.keys():
        problem = f"the invariant fails on the correct variant `{name}`: {failures[name]}"
        yield Finding(page.path, tests[0].line, problem, FEWER)
    names = {variant.id for variant in variants(context)}
    for name in exceptions:
        if name not in failures:
            problem = f"`except` names `{name}`, on which the invariant holds"
            if name not in names:
                problem = f"`except` names `{name}`, which is not a variant"
            yield Finding(page.path, page.line_of("except", name), problem, "remove it")


def _false_alarms(every: Sequence[Tests], context: Context) -> list[FalseAlarms]:
    """Return where each of these invariants fails on correct engines."""
    engine, baseline = context.engine, context.baseline
    rewritten = [(page.id, page.sites, page.patch_texts) for page in variants(context)]
    common = key_of(FALSE_ALARMS, (engine_facts(engine), baseline.limits, rewritten))
    keys = [key_of(FALSE_ALARMS, (common, [test.identity for test in tests])) for tests in every]
    return baseline.cache.fetch(
        FALSE_ALARMS, keys, lambda missing: _run([every[i] for i in missing], context)
    )


def _run(every: Sequence[Tests], context: Context) -> list[FalseAlarms]:
    together = [test for tests in every for test in tests]
    baseline = _selective(context)
    clean = baseline.clean(context.engine, together)
    runs = {UNBROKEN: [run.run for run in clean.values()]}
    sound = [test for test in together if not clean[test.name, None].run.failure]
    for variant in rewrites(context).experiments:
        runs[variant.page.id] = baseline.broken(variant.clean, variant.broken, sound)
    repeatable = all(run.repeatable for of_variant in runs.values() for run in of_variant)
    failures: dict[str, dict[str, Failure]] = {test.name: {} for test in together}
    for name, of_variant in runs.items():
        for run in of_variant:
            if run.failure:
                failures[run.probe][name] = run.failure
    return [
        FalseAlarms(
            {name: one for test in reversed(tests) for name, one in failures[test.name].items()},
            repeatable,
        )
        for tests in every
    ]


def _selective(context: Context) -> Baseline:
    """Return a baseline that remembers nothing: another page's hang must not end these runs."""
    return context.baseline.bare(select=True)


# ----- The broken engine -----


def _check_broken_engine(page: Page, tests: Tests, context: Context) -> Iterator[Finding]:
    experiment = prepare_bare(page, tests, context)
    runs = _selective(context).broken(experiment.clean, experiment.broken, tests)
    for test, run in zip(tests, runs, strict=True):
        if not (run.failure and run.failure.type == "AssertionError"):
            problem = f"the invariant {_how(run)} (seed {test.seed})"
            remedy = "assert something that the break violates with every seed"
            yield Finding(page.path, test.line, problem, remedy)
            return


def _how(run: Run) -> str:
    if run.failure:
        return f"stops on the broken engine before an assertion fails: {run.failure}"
    return "holds on the broken engine" if run.reached else "never runs the changed code"
