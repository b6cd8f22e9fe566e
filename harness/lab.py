"""The whole lab in one function: a page and an engine in, a report out.

Everything that shows a report (terminal, JSON) and everything that asks for one (command line,
tests) is a thin face of `run_lab`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from harness.answers import ask_library
from harness.catalogue import Catalogue
from harness.claims import hold_claims
from harness.diagnostics import (
    DIAGNOSTICS,
    Alarm,
    Diagnostic,
    Observation,
    Silent,
    Skipped,
    Verdict,
    ask,
)
from harness.engine import Engine
from harness.errors import EnvironmentProblem, PageError
from harness.outcome import Judgement, judge
from harness.page import Page
from harness.patch import Patched, apply_patch, apply_transformer, combine, parse_patch, rename
from harness.probe import Probe
from harness.report import EngineReport, Report, RunReport, SiteReport
from harness.run import Failure, Run
from harness.sandbox import EngineDoesNotLoad, Limits, run_isolated
from harness.words import Loss, headline
from harness.worker import Job

Pair = tuple[str, Loss | None]


@dataclass(frozen=True)
class Experiment:
    """A page's patch put into an engine, ready to be run."""

    page: Page
    variant: str | None
    clean: Engine
    broken: Engine
    diff: str
    probes: tuple[Probe, ...]

    @property
    def engine(self) -> EngineReport:
        """Which engine it is, for reports."""
        return EngineReport(self.clean.name, self.variant)

    @property
    def sites(self) -> list[SiteReport]:
        """Where the engine is patched, for reports."""
        return [SiteReport(site.file, site.line, site.scope) for site in self.broken.sites]


def prepare(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    *,
    variant: Page | None = None,
    probes: Sequence[str] = (),
) -> Experiment:
    """Put the page's patch into the engine (after the variant's); nothing is executed.

    Raises PageError and HunkError for a page that cannot be used, DoesNotApply where the engine has
    no site, UsageError for unknown probes.
    """
    clean = engine if variant is None else engine.patched(put(variant, engine))
    patched = put(page, clean)
    return Experiment(
        page=page,
        variant=variant.id if variant else None,
        clean=clean,
        broken=clean.patched(patched),
        diff=patched.diff(),
        probes=catalogue.probes_for(page, probes),
    )


def put(page: Page, engine: Engine) -> Patched:
    """The page's patch, put into the engine's source as it stands."""
    if page.front.transformer:
        return apply_transformer(_transformer(page, page.front.transformer), engine.sources)
    blocks = page.diffs(engine.name)
    if not blocks:
        raise PageError(
            page.path,
            page.body_line,
            f"no patch for the engine {engine.name}",
            "write the change as a ```diff block under `## The break`",
        )
    parts = [parse_patch(block.text, path=page.path, line=block.line) for block in blocks]
    return apply_patch(rename(combine(parts, page.front.sites), engine.names), engine.sources)


def _transformer(page: Page, name: str) -> type[cst.CSTTransformer]:
    """The class that a page names because the notation cannot say its change."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        found, why = None, str(error)
    else:
        why = "it is no such class"
    if isinstance(found, type) and issubclass(found, cst.CSTTransformer):
        return found
    raise PageError(
        page.path,
        1,
        f"key `transformer`: no LibCST transformer `{name}`: {why}",
        'name an importable class: `transformer = "package.module:Class"`',
    )


def run_lab(
    experiment: Experiment,
    *,
    diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
    limits: Limits | None = None,
) -> Report:
    """Run clean and broken, judge, ask the diagnostics, and hold it all against the page.

    Raises EnvironmentProblem where the clean engine does not load.
    """
    start = time.perf_counter()
    pairs = [(probe, loss) for probe in experiment.probes for loss in probe.losses]
    keys = _run_clean(experiment, diagnostics, limits)
    runs = _run_broken(experiment, diagnostics, limits)
    answers = {
        library: ask_library(library, [(p, loss) for p, loss in pairs if p.kind == "gradient"])
        for library in sorted({d.library for d in diagnostics if d.library})
    }
    reports = []
    for (probe, loss), run, key in zip(pairs, runs, keys, strict=True):
        pair = (probe.name, loss)
        independent = {
            library: known.get(pair, Skipped("not asked")) for library, known in answers.items()
        }
        verdicts = _hear(diagnostics, Observation(probe, run, independent))
        on_clean = _hear(diagnostics, Observation(probe, key, independent))
        reports.append(_report_run(experiment, pair, judge(run, key), verdicts, on_clean))
    return _report(experiment, diagnostics, reports, time.perf_counter() - start)


def _run_clean(
    experiment: Experiment, diagnostics: Sequence[Diagnostic], limits: Limits | None
) -> list[Run]:
    try:
        return run_isolated(_job(experiment.clean, experiment.probes, diagnostics), limits)
    except EngineDoesNotLoad as error:
        raise EnvironmentProblem(
            f"the engine {experiment.clean.name} does not load even unpatched: {error}\n"
            "  remedy: make it importable first; breaklab breaks only what works"
        ) from None


def _run_broken(
    experiment: Experiment, diagnostics: Sequence[Diagnostic], limits: Limits | None
) -> list[Run]:
    try:
        return run_isolated(_job(experiment.broken, experiment.probes, diagnostics), limits)
    except EngineDoesNotLoad as error:
        return _all_failed(experiment.probes, error.failure)


def _all_failed(probes: Sequence[Probe], failure: Failure) -> list[Run]:
    return [Run(probe.name, loss, failure=failure) for probe in probes for loss in probe.losses]


def _job(engine: Engine, probes: Sequence[Probe], diagnostics: Sequence[Diagnostic]) -> Job:
    return Job(
        dialect=engine.dialect,
        root=str(engine.root),
        sources=dict(engine.sources),
        sites=engine.sites,
        probes=tuple(probes),
        items=tuple((i, loss) for i, probe in enumerate(probes) for loss in probe.losses),
        measure=tuple(diagnostic.name for diagnostic in diagnostics if diagnostic.measure),
    )


def _hear(diagnostics: Sequence[Diagnostic], observation: Observation) -> dict[str, Verdict]:
    return {diagnostic.name: ask(diagnostic, observation) for diagnostic in diagnostics}


def _report_run(
    experiment: Experiment,
    pair: Pair,
    judgement: Judgement,
    verdicts: Mapping[str, Verdict],
    on_clean: Mapping[str, Verdict],
) -> RunReport:
    expected = experiment.page.expected(experiment.variant, *pair)
    alarms = {name: v.message for name, v in verdicts.items() if isinstance(v, Alarm)}
    false = {name for name in alarms if isinstance(on_clean[name], Alarm)}
    return RunReport(
        probe=pair[0],
        loss=pair[1],
        outcome=judgement.outcome,
        kind=judgement.kind,
        evidence=judgement.evidence,
        fingerprint=None,
        first_divergence=judgement.first_divergence,
        better_than_correct=judgement.better_than_correct,
        expected=expected,
        agrees=None if expected is None else expected == judgement.outcome,
        caught_by=[name for name in alarms if name not in false],
        missed_by=[name for name, v in verdicts.items() if isinstance(v, Silent)],
        skipped={name: v.reason for name, v in verdicts.items() if isinstance(v, Skipped)},
        alarms={name: message for name, message in alarms.items() if name not in false},
        wrong_reason={name: message for name, message in alarms.items() if name in false},
    )


def _report(
    experiment: Experiment,
    diagnostics: Sequence[Diagnostic],
    runs: list[RunReport],
    seconds: float,
) -> Report:
    names = [diagnostic.name for diagnostic in diagnostics]
    claims = hold_claims(experiment.page, experiment.variant, names, runs)
    said = [run.agrees for run in runs] + [claim.agrees for claim in claims]
    return Report(
        schema=1,
        break_=experiment.page.id,
        kind=experiment.page.front.kind,
        engine=experiment.engine,
        sites=experiment.sites,
        diff=experiment.diff,
        headline=headline({run.outcome for run in runs}),
        agrees=False not in said,
        seconds=round(seconds, 3),
        runs=runs,
        claims=claims,
    )


def report_absence(page: Page, engine: Engine, variant: str | None) -> Report:
    """The report on a patch that found no site: no run, hence no outcome but this one."""
    return Report(
        schema=1,
        break_=page.id,
        kind=page.front.kind,
        engine=EngineReport(engine.name, variant),
        sites=[],
        diff="",
        headline="does-not-apply",
        agrees=False,
        seconds=0.0,
        runs=[],
        claims=[],
    )
