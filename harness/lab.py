"""The whole lab in one function: a page and an engine in, a report out.

Everything that shows a report (terminal, JSON) and everything that asks for one (command line,
tests) is a thin face of `run_lab`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import msgspec

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
from harness.patch import (
    Patched,
    Site,
    apply_patch,
    apply_transformer,
    combine,
    parse_patch,
    rename,
)
from harness.probe import Probe
from harness.report import EngineReport, Report, RunReport, SiteReport
from harness.run import Run
from harness.sandbox import EngineDoesNotLoad, Limits
from harness.stage import stage_of
from harness.store import Store, keys_of, open_store, run_kept
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


class Bench:
    """What does not depend on the break, made once for all experiments that share it."""

    def __init__(
        self,
        store: Store,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
        limits: Limits | None = None,
    ) -> None:
        self.store, self.diagnostics, self.limits = store, diagnostics, limits
        self._clean: dict[bytes, _Clean] = {}

    def clean(self, engine: Engine, probes: Sequence[Probe]) -> dict[Pair, _Clean]:
        """The unpatched engine's runs, and what every diagnostic says of them.

        Raises EnvironmentProblem where the engine does not load.
        """
        job = self.job(replace(engine, sites=()), probes, answer_key=True)
        keys = keys_of(job)
        if any(key not in self._clean for key in keys):
            try:
                runs = run_kept(job, self.store, self.limits)
            except EngineDoesNotLoad as error:
                raise EnvironmentProblem(
                    f"the engine {engine.name} does not load even unpatched: {error}\n"
                    "  remedy: make it importable first; breaklab breaks only what works"
                ) from None
            answers = self._ask(probes)
            for key, (index, loss), run in zip(keys, job.items, runs, strict=True):
                probe = probes[index]
                seen = Observation(probe, run, answers[probe.name, loss])
                self._clean[key] = _Clean(run, seen.independent, self.hear(seen))
        return {
            (probes[index].name, loss): self._clean[key]
            for key, (index, loss) in zip(keys, job.items, strict=True)
        }

    def broken(self, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        """The patched engine's runs; an engine that does not even load fails every probe."""
        try:
            return run_kept(self.job(engine, probes), self.store, self.limits)
        except EngineDoesNotLoad as error:
            return [
                Run(probe.name, loss, failure=error.failure)
                for probe in probes
                for loss in probe.losses
            ]

    def trails(
        self, engine: Engine, sites: Sequence[Site], probes: Sequence[Probe]
    ) -> dict[Pair, Mapping[str, int]]:
        """What the unpatched engine has at the places that a patch will change."""
        if not probes:
            return {}
        job = self.job(replace(engine, sites=tuple(site.undone() for site in sites)), probes)
        runs = run_kept(msgspec.structs.replace(job, measure=()), self.store, self.limits)
        return {(run.probe, run.loss): run.trail for run in runs}

    def job(self, engine: Engine, probes: Sequence[Probe], *, answer_key: bool = False) -> Job:
        """All of the probes, with every loss that they take."""
        return Job(
            dialect=engine.dialect,
            root=str(engine.root),
            sources=dict(engine.sources),
            sites=engine.sites,
            probes=tuple(probes),
            items=tuple((i, loss) for i, probe in enumerate(probes) for loss in probe.losses),
            measure=tuple(each.name for each in self.diagnostics if each.measure),
            answer_key=answer_key,
        )

    def hear(self, observation: Observation) -> dict[str, Verdict]:
        """What every diagnostic says."""
        return {each.name: ask(each, observation) for each in self.diagnostics}

    def _ask(self, probes: Sequence[Probe]) -> dict[Pair, dict[str, Run | Skipped]]:
        """The independent libraries' answers to each probe and loss."""
        pairs = [(probe, loss) for probe in probes for loss in probe.losses]
        names = sorted({each.library for each in self.diagnostics if each.library})
        answers = {name: ask_library(name, pairs, self.store) for name in names}
        unfit = Skipped("such a probe cannot be put to it")
        return {
            (probe.name, loss): {
                name: known.get((probe.name, loss), unfit) for name, known in answers.items()
            }
            for probe, loss in pairs
        }


@dataclass(frozen=True)
class _Clean:
    """A run of the unpatched engine, the answer key, and what the diagnostics say of it."""

    run: Run
    independent: Mapping[str, Run | Skipped]
    verdicts: Mapping[str, Verdict]


def run_lab(experiment: Experiment, bench: Bench | None = None) -> Report:
    """Run clean and broken, judge, ask the diagnostics, and hold it all against the page.

    Raises EnvironmentProblem where the clean engine does not load.
    """
    start = time.perf_counter()
    bench = bench or Bench(open_store())
    probes = {probe.name: probe for probe in experiment.probes}
    keys = bench.clean(experiment.clean, experiment.probes)
    runs = bench.broken(experiment.broken, experiment.probes)
    judged = [(run, judge(run, keys[run.probe, run.loss].run)) for run in runs]
    hidden = dict.fromkeys(run.probe for run, j in judged if j.outcome == "disguised-correct")
    trails = bench.trails(
        experiment.clean, experiment.broken.sites, [probes[name] for name in hidden]
    )
    reports = []
    for run, judgement in judged:
        pair = (run.probe, run.loss)
        key = keys[pair]
        seen = Observation(probes[run.probe], run, key.independent)
        reached = run.reached or run.failure
        verdicts = bench.hear(seen) if reached else key.verdicts
        reports.append(
            _report_run(experiment, run, judgement, verdicts, key.verdicts, trails.get(pair, {}))
        )
    return _report(experiment, bench.diagnostics, reports, time.perf_counter() - start)


def _report_run(
    experiment: Experiment,
    run: Run,
    judgement: Judgement,
    verdicts: Mapping[str, Verdict],
    on_clean: Mapping[str, Verdict],
    trail: Mapping[str, int],
) -> RunReport:
    expected = experiment.page.expected(experiment.variant, run.probe, run.loss)
    alarms = {name: v.message for name, v in verdicts.items() if isinstance(v, Alarm)}
    false = {name for name in alarms if isinstance(on_clean[name], Alarm)}
    caught_by = [name for name in alarms if name not in false]
    stage, why = stage_of(judgement.outcome, run, trail, caught_by)
    return RunReport(
        probe=run.probe,
        loss=run.loss,
        outcome=judgement.outcome,
        kind=judgement.kind,
        evidence=judgement.evidence,
        stage=stage,
        why=why,
        fingerprint=None,
        first_divergence=judgement.first_divergence,
        better_than_correct=judgement.better_than_correct,
        expected=expected,
        agrees=None if expected is None else expected == judgement.outcome,
        caught_by=caught_by,
        missed_by=[name for name, v in verdicts.items() if isinstance(v, Silent)],
        skipped={name: v.reason for name, v in verdicts.items() if isinstance(v, Skipped)},
        alarms={name: message for name, message in alarms.items() if name not in false},
        wrong_reason={name: message for name, message in alarms.items() if name in false},
        margins={},
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
