"""The baseline: what does not depend on the break, computed once for all experiments that share it.

It contains the clean engine's runs, the oracles' runs of the same probes, and the verdicts of all
diagnostics on the clean engine. Every run goes through the cache. With a catalogue and an engine,
it is the context in which pages run.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import msgspec

from harness.answer_key.outcome import MEASUREMENTS
from harness.answer_key.tolerances import description_of, ill_conditioned
from harness.core.errors import EnvironmentProblem
from harness.core.message import Kind, Message, message
from harness.core.report import RunReport
from harness.core.rounding import repeats
from harness.core.run import Measured, Run
from harness.core.vocabulary import Alarm, Loss, Skipped, Verdict
from harness.diagnostics import DIAGNOSTICS, Diagnostic, Observation, evaluate
from harness.engines.engine import Engine
from harness.pages.catalogue import Catalogue
from harness.pages.probe import Probe
from harness.runs.cache import Cache
from harness.runs.cached_runs import (
    job_on_library,
    keys_of,
    run_cached,
    run_on_library,
    why_missing,
)
from harness.runs.isolated import EngineDoesNotLoad
from harness.runs.protocol import Job, JobStep, Recorded
from harness.sandbox.limits import Limits

RunId = tuple[str, Loss | None]
"""A probe's name and a loss."""

UNREPEATABLE = message(Kind.UNREPEATABLE)


@dataclass(eq=False)
class CleanRun:
    """A run of the clean engine (the answer key), and the verdicts on it."""

    run: Run
    oracles: Mapping[str, Run | Skipped]
    verdicts: Mapping[str, Verdict]
    unreached: RunReport | None = field(default=None, repr=False)
    """The report on a run that never reaches a patch; the same for all pages, and made once."""

    @cached_property
    def alarms(self) -> dict[str, Message]:
        """The message of each alarm, by diagnostic."""
        verdicts = self.verdicts.items()
        return {name: verdict.message for name, verdict in verdicts if isinstance(verdict, Alarm)}

    @cached_property
    def visible(self) -> Run:
        """The part of the run that diagnostics may see, without their measurements."""
        return _visible(self.run)


class Baseline:
    """What does not depend on the break.

    Parameters
    ----------
    cache : Cache
        Where runs are looked up and stored.
    diagnostics : sequence of Diagnostic
        The checks to run.
    limits : Limits, optional
        Limits for each run; the default ones if None.
    select : bool
        Run only probes that call a changed function, and do not look inside the runs, so some
        stages are unknown. With many probes, this takes an eighth of the time.
    own : sequence of Diagnostic
        The diagnostics of the catalogue itself, which are run too.
    """

    def __init__(
        self,
        cache: Cache,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
        limits: Limits | None = None,
        select: bool = False,
        own: Sequence[Diagnostic] = (),
    ) -> None:
        self.cache, self.limits = cache, limits or Limits()
        self.diagnostics = (*diagnostics, *own)
        self.select = select
        self.memo: dict[object, Any] = {}
        """Values that other modules compute once for this baseline, by a key of their choice."""
        self._clean: dict[bytes, CleanRun] = {}
        self._covered: dict[bytes, Run] = {}
        self._not_loaded: dict[str, Message] = {}
        """The libraries that are installed but cannot be imported, and why."""

    def bare(self, *, select: bool = False) -> Baseline:
        """Return a new baseline without diagnostics, with the same cache and limits."""
        return Baseline(self.cache, (), self.limits, select)

    # ----- The clean engine -----

    def clean(self, engine: Engine, probes: Sequence[Probe]) -> dict[RunId, CleanRun]:
        """Return the clean engine's runs, with the verdict of every diagnostic.

        Raises EnvironmentProblem if the engine does not load.
        """
        job = self._clean_job(engine, probes)
        keys = keys_of(job)
        missing = [position for position, key in enumerate(keys) if key not in self._clean]
        if missing:
            self._evaluate_clean(engine, job.only(missing))
        return {pair: self._clean[key] for pair, key in zip(job.pairs, keys, strict=True)}

    def clean_runs(self, engine: Engine, probes: Sequence[Probe]) -> dict[RunId, Run]:
        """Return only the clean engine's runs, which need no oracle.

        Raises EnvironmentProblem if the engine does not load.
        """
        job = self._clean_job(engine, probes)
        keys = keys_of(job)
        missing = [position for position, key in enumerate(keys) if key not in self._clean]
        try:
            runs = run_cached(job.only(missing), self.cache) if missing else []
        except EngineDoesNotLoad as error:
            raise does_not_load(engine, error) from None
        found = dict(zip(missing, runs, strict=True))
        return {
            pair: found.get(position) or self._clean[keys[position]].run
            for position, pair in enumerate(job.pairs)
        }

    def complete(self, engine: Engine, probes: Sequence[Probe]) -> None:
        """Compute everything that experiments on these probes need from the clean engine.

        Raises EnvironmentProblem if the engine does not load.
        """
        self.clean(engine, probes)
        self.unrepeatable(engine, probes)
        if self.select:
            self.coverage(engine, probes)

    def jobs(self, engine: Engine, probes: Sequence[Probe]) -> list[Job]:
        """Return the jobs whose runs `complete` looks up; they may run in parallel.

        Unlike in `complete`, several probes may share a name.
        """
        clean = self._clean_job(engine, probes)
        pairs = [(probes[step.probe], step.loss) for step in clean.steps]
        libraries = [name for name in self._libraries if not why_missing(name)]
        jobs = [
            clean,
            *(job_on_library(name, pairs) for name in reversed(libraries)),  # PyTorch takes longest
            self._repeat_job(engine, probes),
            *([self._coverage_job(engine, probes)] if self.select else []),
        ]
        return [job for job in jobs if job.steps]

    def unrepeatable(self, engine: Engine, probes: Sequence[Probe]) -> dict[str, Message]:
        """Return the probes that give different numbers each time, each with that reason.

        Every probe of a page or a user that succeeds on the clean engine runs again, in another
        process.
        """
        job = self._repeat_job(engine, probes)
        if not job.steps:
            return {}
        first = self.clean_runs(engine, job.probes)
        ended = [position for position, pair in enumerate(job.pairs) if not first[pair].failure]
        return {
            run.probe: UNREPEATABLE
            for run in run_cached(job.only(ended), self.cache)
            if not repeats(run, first[run.probe, run.loss])
        }

    def ill_conditioned(self, engine: Engine, probes: Sequence[Probe]) -> dict[str, Message]:
        """Return the probes in which rounding can hide small errors.

        Raises EnvironmentProblem if the engine does not load.
        """
        reasons: dict[str, Message] = {}
        for (probe, _), run in self.clean_runs(engine, probes).items():
            for name, hidden in ill_conditioned(run).items():
                if probe not in reasons:
                    reasons[probe] = message(
                        "rounding can hide errors of up to {size} in {array}",
                        size=f"{hidden:.2g}",
                        array=description_of(name),
                    )
        return reasons

    def inside(self, engine: Engine, probes: Sequence[Probe]) -> dict[RunId, Run]:
        """Return runs that contain the trail at the engine's sites, and the backward walk.

        Empty if the engine does not load; without walks if the engine cannot record them.
        """
        job = job_for(engine, probes, self.limits)
        job = msgspec.structs.replace(job, records=Recorded.INSIDE)
        try:
            runs = run_cached(job, self.cache) if job.steps else []
        except EngineDoesNotLoad:
            return {}
        return {(run.probe, run.loss): run for run in runs}

    # ----- The broken engine -----

    def broken(self, clean: Engine, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        """Return the broken engine's runs; if it does not even load, every run fails.

        With `select`, probes that cannot reach the patch are not run, and keep the clean results.
        """
        job = self.job(engine, probes)
        steps = self.reaching(clean, engine.sources, probes) if self.select else job.steps
        try:
            runs = run_cached(msgspec.structs.replace(job, steps=steps), self.cache)
        except EngineDoesNotLoad as error:
            return failed_runs(job, error)
        results = dict(zip(steps, runs, strict=True))
        if len(steps) < len(job.steps):
            results |= self._unreached(clean, job, results)
        return [results[step] for step in job.steps]

    def _unreached(
        self, clean: Engine, job: Job, reached: Container[JobStep]
    ) -> dict[JobStep, Run]:
        """Return the runs that were not selected: they end as on the clean engine."""
        correct = self.covered(clean, job.probes)
        steps = zip(job.steps, job.pairs, strict=True)
        runs = {step: Run(*pair, failure=correct[pair].failure) for step, pair in steps}
        return {step: run for step, run in runs.items() if step not in reached}

    def reaching(
        self, clean: Engine, sources: Mapping[str, str], probes: Sequence[Probe]
    ) -> tuple[JobStep, ...]:
        """Return the steps in which the clean engine calls a function that other sources change.

        All of them, if code outside functions differs, since the import executes it.
        """
        from harness.runs.recorder import changed_functions  # for many probes only

        steps = job_for(clean, probes, self.limits).steps
        changed = changed_functions(clean.root, clean.sources, sources)
        if changed is None:
            return steps
        called = zip(steps, self.coverage(clean, probes), strict=True)
        return tuple(step for step, names in called if names is None or changed & names)

    def coverage(self, clean: Engine, probes: Sequence[Probe]) -> list[frozenset[str] | None]:
        """Return the functions that the clean engine calls, for each probe and loss."""
        runs = self.covered(clean, probes).values()
        return [None if run.called is None else frozenset(run.called) for run in runs]

    def covered(self, clean: Engine, probes: Sequence[Probe]) -> dict[RunId, Run]:
        """Return runs of the clean engine that record which functions it calls.

        Nothing is measured in them. Raises EnvironmentProblem if the engine does not load.
        """
        job = self._coverage_job(clean, probes)
        keys = keys_of(job)
        missing = [position for position, key in enumerate(keys) if key not in self._covered]
        try:
            runs = run_cached(job.only(missing), self.cache) if missing else []
        except EngineDoesNotLoad as error:
            raise does_not_load(clean, error) from None
        self._covered |= {keys[at]: run for at, run in zip(missing, runs, strict=True)}
        return {pair: self._covered[key] for pair, key in zip(job.pairs, keys, strict=True)}

    # ----- Diagnostics and oracles -----

    def with_own(self, engine: Engine, probes: Sequence[Probe], runs: Sequence[Run]) -> list[Run]:
        """Return an engine's runs with the verdicts of the diagnostics that the catalogue brings.

        They are taken in further runs, each in a process of its own, and only the verdict is kept:
        so such a diagnostic affects neither an outcome nor the verdict of another one.
        """
        results = list(runs)
        index = {probe.name: position for position, probe in enumerate(probes)}
        for measurement in filter(None, (item.judged for item in self.diagnostics)):
            judged = {
                JobStep(index[run.probe], run.loss): position
                for position, run in enumerate(results)
                if not run.failure
                and (run.reached or not engine.sites)
                and probes[index[run.probe]].kind in measurement.kinds
            }
            job = msgspec.structs.replace(
                job_for(engine, probes, self.limits),
                steps=tuple(judged),
                measure=(measurement,),
                alone=True,
            )
            if not judged:
                continue
            try:
                again = run_cached(job, self.cache)
            except EngineDoesNotLoad as error:
                again = failed_runs(job, error)
            for position, run in zip(judged.values(), again, strict=True):
                found = run.measured.get(measurement.name)
                if run.failure or found is None:
                    text = str(run.failure or "no result")
                    found = Measured(failure=text, ours=True, repeatable=False)
                measured = {**results[position].measured, measurement.name: found}
                results[position] = msgspec.structs.replace(results[position], measured=measured)
        return results

    def missing(self) -> dict[str, Message]:
        """Return the diagnostics whose library is not installed or does not load, and why."""
        libraries = {item.name: item.library for item in self.diagnostics if item.library}
        reasons = {
            name: why_missing(library) or self._not_loaded.get(library)
            for name, library in libraries.items()
        }
        return {name: reason for name, reason in reasons.items() if reason}

    def verdicts(self, observation: Observation) -> dict[str, Verdict]:
        """Return the verdict of every diagnostic."""
        return {item.name: evaluate(item, observation) for item in self.diagnostics}

    def verdicts_beside(self, clean: CleanRun, observation: Observation) -> dict[str, Verdict]:
        """Return the verdicts, reusing the clean run's verdict if a diagnostic sees the same."""
        run, measured = observation.run, clean.run.measured
        if _visible(run) != clean.visible:
            return self.verdicts(observation)
        return {
            item.name: clean.verdicts[item.name]
            if run.measured.get(item.name) == measured.get(item.name)
            else evaluate(item, observation)
            for item in self.diagnostics
        }

    def _evaluate_clean(self, engine: Engine, job: Job) -> None:
        """Run the clean engine and the oracles, and evaluate every diagnostic on the runs."""
        try:
            runs = run_cached(job, self.cache)
        except EngineDoesNotLoad as error:
            raise does_not_load(engine, error) from None
        runs = self.with_own(engine.without_sites(), job.probes, runs)
        oracles = self._oracle_runs([(job.probes[step.probe], step.loss) for step in job.steps])
        for step, key, run in zip(job.steps, keys_of(job), runs, strict=True):
            observation = Observation(job.probes[step.probe], run, oracles[run.probe, run.loss])
            verdicts = self.verdicts(observation)
            self._clean[key] = CleanRun(run, observation.independent, verdicts)

    def _oracle_runs(
        self, pairs: Sequence[tuple[Probe, Loss | None]]
    ) -> dict[RunId, dict[str, Run | Skipped]]:
        """Return each oracle's run of each probe and loss, or why there is none."""
        runs = {name: run_on_library(name, pairs, self.cache) for name in self._libraries}
        for name, own in runs.items():
            for run in own.values():
                if isinstance(run, Skipped) and not run.repeatable:
                    self._not_loaded[name] = run.reason
        unfit = Skipped(message("the library cannot run this kind of probe"))
        return {
            (probe.name, loss): {
                name: own.get((probe.name, loss), unfit) for name, own in runs.items()
            }
            for probe, loss in pairs
        }

    @property
    def _libraries(self) -> list[str]:
        """The names of the libraries that some diagnostic compares with."""
        return sorted({item.library for item in self.diagnostics if item.library})

    # ----- Jobs -----

    def job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job that runs all probes with every loss and takes all measurements."""
        measurements = (item.measurement for item in self.diagnostics)
        job = job_for(engine, probes, self.limits)
        return msgspec.structs.replace(job, measure=tuple(filter(None, measurements)))

    def _clean_job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job for the answer key, which also measures what may differ."""
        job = self.job(engine.without_sites(), probes)
        return msgspec.structs.replace(job, measure=(*job.measure, *MEASUREMENTS))

    def _coverage_job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job that only records which functions are called."""
        job = job_for(engine.without_sites(), probes, self.limits)
        return msgspec.structs.replace(job, records=Recorded.CALLS)

    def _repeat_job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job to run the probes of pages and users a second time.

        Nothing is measured this time, so the keys differ, and the cache does not return the first
        runs.
        """
        own = [probe for probe in probes if not probe.shared]
        return job_for(engine.without_sites(), own, self.limits)


def job_for(engine: Engine, probes: Sequence[Probe], limits: Limits) -> Job:
    """Return the job to run all probes with every loss, and to record what an outcome needs."""
    return Job(
        dialect=engine.dialect,
        root=str(engine.root),
        sources=dict(engine.sources),
        sites=engine.sites,
        probes=tuple(probes),
        steps=tuple(JobStep(i, loss) for i, probe in enumerate(probes) for loss in probe.losses),
        limits=limits,
        base=dict(engine.base),
        alone=engine.foreign,
    )


def failed_runs(job: Job, error: EngineDoesNotLoad) -> list[Run]:
    """Return the runs of a job whose engine does not load: each fails."""
    return [Run(*pair, failure=error.failure) for pair in job.pairs]


def does_not_load(engine: Engine, error: EngineDoesNotLoad) -> EnvironmentProblem:
    """Return the error for an engine that cannot be imported even unpatched."""
    return EnvironmentProblem(
        message(
            "the engine {engine} does not load even unpatched: {error}",
            engine=engine.name,
            error=error,
        ),
        "make it importable first: breaklab needs an engine that works",
    )


def _visible(run: Run) -> Run:
    """Return the run without its measurements and without what diagnostics may not see."""
    return msgspec.structs.replace(
        run, reached=[], trail={}, called=None, trace=[], measured={}, seconds=0.0
    )


# ----- The context of a page: the resources that it runs with -----


class Context(Protocol):
    """The resources that pages run with; they may be opened on first use."""

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of pages, probes and recipes."""

    @property
    def engine(self) -> Engine:
        """The unbroken engine."""

    @property
    def baseline(self) -> Baseline:
        """The results of the unbroken engine and of the oracles, which all pages share."""


@dataclass(frozen=True)
class OpenContext:
    """A context whose parts are already open."""

    catalogue: Catalogue
    engine: Engine
    baseline: Baseline
