"""The check of checks: of a break's invariant, and of a diagnostic that a catalogue brings.

Both are run. They must raise no alarm on the unbroken engine and on every correct rewrite of it,
and one on a broken engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.check import Finding, finding_from
from harness.core.errors import BreaklabError, DoesNotApply, PageError
from harness.core.report import Report
from harness.core.run import Failure, Run
from harness.diagnostics.own import from_catalogue, read_own
from harness.experiment.baseline import Baseline, Context
from harness.experiment.cached import engine_facts
from harness.experiment.lab import run_lab
from harness.experiment.patching import Experiment
from harness.grade.probes import prepare_bare
from harness.pages.checks import Invariant, OwnDiagnostic, invariant_of
from harness.pages.front_matter import Break, Variant
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import ResultKind, key_of

# ----- Correct rewrites of the engine -----


@dataclass(frozen=True)
class Rewrites:
    """The experiments of the variants that apply to an engine."""

    texts: list[tuple[str, str]]
    """The path and the text of each variant's page."""
    baseline: Baseline
    """A selective one, since most variants do not change code that a program runs."""
    experiments: list[Experiment]


def rewrites(context: Context) -> Rewrites:
    """Return the variants that apply to the engine, prepared once for all pages of a check."""
    baseline, pages = context.baseline, variants(context)
    texts = [(page.path, page.toml + page.body) for page in pages]
    known: Rewrites | None = baseline.memo.get(rewrites)
    if known is None or known.texts != texts:
        experiments = []
        for page in pages:
            with contextlib.suppress(DoesNotApply):
                experiments.append(prepare_bare(page, (), context))
        selective = Baseline(baseline.cache, baseline.diagnostics, baseline.limits, select=True)
        known = baseline.memo[rewrites] = Rewrites(texts, selective, experiments)
    return known


def variants(context: Context) -> list[Page]:
    """Return the pages of all variants of the engine."""
    pages = [page for page in context.catalogue.pages[0] if isinstance(page.front, Variant)]
    if context.engine.foreign:
        return [page for page in pages if page.is_about(context.engine.name)]
    return [page for page in pages if not page.is_about_another(context.engine.name)]


# ----- A break's invariant -----

UNBROKEN = ""
"""The key of the unbroken engine among the variants."""

FEWER = "make it more tolerant, or state in `except` why this correct engine violates it"

SeededTests = Sequence[Probe]
"""An invariant as tests, one for each seed; the last has the line of the invariant in its page."""


class FalseAlarms(msgspec.Struct, frozen=True):
    """Where an invariant fails on correct engines."""

    failures: dict[str, Failure]
    """The first failure on each correct engine on which it fails."""
    repeatable: bool
    """Whether running again would give the same result."""


FALSE_ALARMS: ResultKind[FalseAlarms] = ResultKind("false alarms", FalseAlarms)


def check_invariant(page: Page, context: Context, *, applies: bool) -> Iterator[Finding]:
    """Yield what is wrong with the page's invariant.

    It must hold on the unbroken engine and on every variant, and fail on the broken one, each time
    with several seeds. It is run only if the page's patch `applies`.
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


def _tests(page: Page, invariant: Invariant, context: Context) -> SeededTests:
    return invariant.tests(shared=context.catalogue.is_bundled(page))


def _check_runs(page: Page, tests: SeededTests, context: Context) -> Iterator[Finding]:
    (alarms,) = _false_alarms([tests], context)
    if failure := alarms.failures.get(UNBROKEN):
        problem = f"the invariant fails on the unbroken engine: {failure}"
        remedy = "correct the invariant: it must hold on every correct engine"
        yield Finding(page.path, tests[-1].line, problem, remedy)
    else:
        yield from _check_on_variants(page, tests, alarms.failures, context)
        yield from _check_broken_engine(page, tests, context)


def _check_on_variants(
    page: Page, tests: SeededTests, failures: Mapping[str, Failure], context: Context
) -> Iterator[Finding]:
    exceptions = page.front_as(Break).exceptions
    for name in failures.keys() - exceptions.keys():
        problem = f"the invariant fails on the correct variant `{name}`: {failures[name]}"
        yield Finding(page.path, tests[-1].line, problem, FEWER)
    names = {variant.id for variant in variants(context)}
    for name in exceptions:
        if name not in failures:
            problem = f"`except` names `{name}`, on which the invariant holds"
            if name not in names:
                problem = f"`except` names `{name}`, which is not a variant"
            yield Finding(page.path, page.line_of("except", name), problem, "remove it")


def _false_alarms(every: Sequence[SeededTests], context: Context) -> list[FalseAlarms]:
    """Return where each of these invariants fails on correct engines."""
    engine, baseline = context.engine, context.baseline
    rewritten = [(page.id, page.sites, page.patch_texts) for page in variants(context)]
    common = key_of(FALSE_ALARMS, (engine_facts(engine), baseline.limits, rewritten))
    keys = [key_of(FALSE_ALARMS, (common, [test.identity for test in tests])) for tests in every]
    return baseline.cache.fetch(
        FALSE_ALARMS, keys, lambda missing: _run([every[i] for i in missing], context)
    )


def _run(every: Sequence[SeededTests], context: Context) -> list[FalseAlarms]:
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


def _check_broken_engine(page: Page, tests: SeededTests, context: Context) -> Iterator[Finding]:
    experiment = prepare_bare(page, tests, context)
    runs = _selective(context).broken(experiment.clean, experiment.broken, tests)
    for test, run in zip(tests, runs, strict=True):
        if not (run.failure and run.failure.type == "AssertionError"):
            problem = f"the invariant {_how(run)} (seed {test.seed or 0})"
            remedy = "assert something that the break violates with every seed"
            yield Finding(page.path, tests[-1].line, problem, remedy)
            return


def _how(run: Run) -> str:
    if run.failure:
        return f"stops on the broken engine before an assertion fails: {run.failure}"
    return "holds on the broken engine" if run.reached else "never runs the changed code"


# ----- A diagnostic that a catalogue brings -----


def check_diagnostic(path: Path, context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the diagnostic in a file.

    It is controlled like ours: it can be read; it judges runs, without errors of its own; it raises
    no alarm on the unbroken engine, on any correct rewrite of it, or on a patch that changes
    nothing; and it raises one on an engine that is wrong everywhere. All shared probes are run.
    """
    found, mistakes = read_own(context.catalogue)
    for error in mistakes:
        if error.path == str(path):
            yield finding_from(error, error.path)
    for own in found:
        if own.path == str(path):
            yield from _DiagnosticCheck(own, context).findings()


class _DiagnosticCheck:
    """A diagnostic alone, on the shared probes that it applies to."""

    def __init__(self, own: OwnDiagnostic, context: Context) -> None:
        self.own, self.context = own, context
        self.baseline = Baseline(
            context.baseline.cache,
            (),
            context.baseline.limits,
            select=True,
            own=[from_catalogue(own)],
        )

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, up to the first control that it violates."""
        catalogue, name = self.context.catalogue, self.own.name
        probes = [p for p in catalogue.shared_probes.values() if p.kind in self.own.kinds]
        clean = self.baseline.clean(self.context.engine, probes)
        runs = [key.run for key in clean.values() if name in key.run.measured]
        yield from self._errors(runs)
        judged = [run for run in runs if _is_verdict(run, name)]
        alarms = {probe: str(k.alarms[name]) for (probe, _), k in clean.items() if name in k.alarms}
        if alarms:
            yield self._false_alarms("the unbroken engine", alarms)
            return
        if not judged:
            reasons = dict.fromkeys(str(run.measured[name].problem) for run in runs)
            problem = f"judges no run of any shared probe: {'; '.join(list(reasons)[:2]) or 'none'}"
            yield self._finding(problem, "correct `KINDS`, or let it judge more")
            return
        usable = [probe for probe in probes if any(run.probe == probe.name for run in judged)]
        no_op = catalogue.conventions.controls.no_op
        unchanged = [catalogue.page(no_op, "control")] if no_op else []
        for page in [*variants(self.context), *unchanged]:
            report = self._report(page, usable)
            if isinstance(report, Finding):
                yield report
                continue
            alarms = {
                run.probe: str(run.alarms[name])
                for run in report.runs
                if name in run.alarms and run.outcome != "convention"
            }
            if alarms:
                yield self._false_alarms(f"the correct engine `{page.id}`", alarms)
                return
        yield from self._sabotage(usable)

    def _sabotage(self, probes: Sequence[Probe]) -> Iterator[Finding]:
        sabotage = self.context.catalogue.conventions.controls.sabotage
        if sabotage is None:
            return
        report = self._report(self.context.catalogue.page(sabotage, "control"), probes)
        if isinstance(report, Finding):
            yield report
        elif not any(self.own.name in run.caught_by for run in report.runs):
            problem = f"raises no alarm on `{sabotage}`, an engine that is wrong everywhere"
            yield self._finding(problem, "correct the diagnostic: it cannot fail")

    def _errors(self, runs: Iterable[Run]) -> Iterator[Finding]:
        """Yield a finding about the errors that its own code raises, or the limits it exceeds."""
        name = self.own.name
        failures = {
            run.probe: measured.failure
            for run in runs
            if (measured := run.measured[name]).failure and measured.ours
        }
        if failures:
            probe, first = next(iter(failures.items()))
            problem = f"fails on the probe `{probe}`{_others(failures)}: {first}"
            remedy = "correct the code; where it cannot judge, return the reason as a text"
            yield self._finding(problem, remedy)

    def _report(self, page: Page, probes: Sequence[Probe]) -> Report | Finding:
        try:
            return run_lab(prepare_bare(page, probes, self.context), self.baseline)
        except BreaklabError as error:
            return finding_from(error, page.path)

    def _false_alarms(self, engine: str, alarms: dict[str, str]) -> Finding:
        probe, text = next(iter(alarms.items()))
        problem = f"raises a false alarm on {engine} with `{probe}`{_others(alarms)}: {text}"
        remedy = "change the diagnostic: on a correct engine, it must raise no alarm"
        return self._finding(problem, remedy)

    def _finding(self, problem: str, remedy: str) -> Finding:
        return Finding(self.own.path, self.own.line, problem, remedy)


def _is_verdict(run: Run, name: str) -> bool:
    measured = run.measured[name]
    return not measured.problem and not (measured.failure and measured.ours)


def _others(probes: dict[str, str]) -> str:
    more = len(probes) - 1
    return f" and {more} more" if more else ""
