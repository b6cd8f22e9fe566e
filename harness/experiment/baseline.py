"""The baseline: what does not depend on the break, computed once for all experiments that share it.

It contains the clean engine's runs, the oracles' runs of the same probes, and the verdicts of all
diagnostics on the clean engine. Every run goes through the cache.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from harness.answer_key.outcome import MEASUREMENTS
from harness.answer_key.tolerances import description_of, ill_conditioned
from harness.core.errors import EnvironmentProblem
from harness.core.message import Kind, Message, message
from harness.core.report import RunReport
from harness.core.rounding import repeats
from harness.core.run import Digest, Measured, Run, TraceStep
from harness.core.vocabulary import Alarm, Loss, Skipped, Verdict
from harness.diagnostics import DIAGNOSTICS, Diagnostic, Observation, evaluate
from harness.engines.engine import Engine
from harness.pages.probe import Probe
from harness.runs.cache import Cache
from harness.runs.cached_runs import (
    RUNS,
    job_on_library,
    keys_of,
    run_cached,
    run_on_library,
    why_missing,
)
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from harness.runs.protocol import Job, JobStep
from harness.sandbox.limits import Limits

RunId = tuple[str, Loss | None]
"""A probe's name and a loss."""

Traces = Mapping[RunId, Sequence[TraceStep]]
"""Recorded backward walks."""


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
    explain : bool
        Record backward walks, so that reports say what a wrong array looks like and where it comes
        from.
    select : bool
        Run only probes that call a changed function, and do not record what the patched places
        evaluate to, so that some stages are unknown. Worth it for many probes.
    own : sequence of Diagnostic
        The diagnostics that the catalogue brings, which are run too.
    """

    def __init__(
        self,
        cache: Cache,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
        limits: Limits | None = None,
        explain: bool = False,
        select: bool = False,
        own: Sequence[Diagnostic] = (),
    ) -> None:
        self.cache, self.limits = cache, limits or Limits()
        self.diagnostics = (*diagnostics, *own)
        self.explain, self.select = explain, select
        self.memo: dict[object, Any] = {}
        """Values that other modules compute once for this baseline, by a key of their choice."""
        self._clean: dict[bytes, CleanRun] = {}
        self._called: dict[bytes, frozenset[str] | None] = {}
        self._not_loaded: dict[str, Message] = {}
        """The libraries that are installed and cannot be imported, and why."""

    def bare(self, *, explain: bool = False, select: bool = False) -> Baseline:
        """Return a new baseline without diagnostics, with the same cache and limits."""
        return Baseline(self.cache, (), self.limits, explain, select)

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

    def run_everything_once(self, unpatched: Engine, probes: Sequence[Probe]) -> None:
        """Run the clean engine once for everything that one experiment needs from it.

        Its runs, the second runs of some probes, the values at the patched places, and the recorded
        walks are cached under different keys, since most of them serve other experiments too. Does
        nothing if some of the runs are already cached: then only the others are run, when they are
        needed.

        Parameters
        ----------
        unpatched : Engine
            The clean engine, whose sites are the places that the patch changes.
        probes : sequence of Probe
            The probes of the experiment.
        """
        plain = self._clean_job(unpatched, probes)
        plain_keys = keys_of(plain)
        if self.cache.get(RUNS, plain_keys):
            return
        trails = msgspec.structs.replace(self.job(unpatched, probes), measure=())
        traces = _traces_only(self.job(unpatched.without_sites(), probes))
        repeated = self._repeat_job(unpatched, probes)
        everything = msgspec.structs.replace(
            plain,
            sites=unpatched.sites,
            # Added as separate probes, so that their second runs have their own processes.
            probes=(*plain.probes, *repeated.probes),
            steps=(
                *plain.steps,
                *(step._replace(probe=len(probes) + step.probe) for step in repeated.steps),
                *traces.steps,
            ),
            complete=True,
        )
        try:
            runs = run_isolated(everything)
        except EngineDoesNotLoad:
            return  # `clean` reports it
        observed, rest = runs[: len(plain.steps)], runs[len(plain.steps) :]
        again, walks = rest[: len(repeated.steps)], rest[len(repeated.steps) :]
        again = [msgspec.structs.replace(_without_sites(run), measured={}) for run in again]
        self.cache.put(RUNS, dict(zip(keys_of(repeated), again, strict=True)))
        self.cache.put(RUNS, dict(zip(plain_keys, map(_without_sites, observed), strict=True)))
        self.cache.put(RUNS, dict(zip(keys_of(trails), map(_only_sites, observed), strict=True)))
        self.cache.put(RUNS, dict(zip(keys_of(traces), walks, strict=True)))

    def trails(self, engine: Engine, probes: Sequence[Probe]) -> dict[RunId, Mapping[str, Digest]]:
        """Return digests of the values at an engine's sites, for each probe and loss."""
        if not probes:
            return {}
        job = msgspec.structs.replace(self.job(engine, probes), measure=())
        runs = run_cached(job, self.cache)
        return {(run.probe, run.loss): run.trail for run in runs}

    def traces(self, engine: Engine, probes: Sequence[Probe], *, every: bool = False) -> Traces:
        """Return the backward walks of an engine that can record them; empty for any other.

        Only those of gradient probes, unless `every` kind of probe is meant.
        """
        job = _traces_only(self.job(engine, probes), every=every)
        try:
            runs = run_cached(job, self.cache) if job.steps else []
        except EngineDoesNotLoad:
            return {}
        return {(run.probe, run.loss): run.trace for run in runs}

    # ----- The broken engine -----

    def broken(self, clean: Engine, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        """Return the broken engine's runs; if it does not even load, every run fails.

        With `select`, probes that cannot reach the patch are not run: they end as unpatched. With
        `explain`, the walks are recorded by the same child process, so that `traces` finds them.
        """
        job = self.job(engine, probes)
        selected = self.reaching(clean, engine.sources, probes) if self.select else job.steps
        walks = _traces_only(job).steps if self.explain else ()
        selection = msgspec.structs.replace(job, steps=(*selected, *walks), trailed=not self.select)
        try:
            runs = run_cached(selection, self.cache)
        except EngineDoesNotLoad as error:
            return failed_runs(job, error)
        results = dict(zip(selected, runs, strict=False))
        if len(selected) < len(job.steps):
            results |= self._unreached(clean, job, results)
        return [results[step] for step in job.steps]

    def broken_alone(self, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        """Return a broken engine's runs without measurements: only what an outcome needs."""
        job = job_for(engine, probes, self.limits)
        try:
            return run_cached(job, self.cache)
        except EngineDoesNotLoad as error:
            return failed_runs(job, error)

    def _unreached(
        self, clean: Engine, job: Job, reached: Container[JobStep]
    ) -> dict[JobStep, Run]:
        """Return the runs that were not selected: they end as on the clean engine."""
        key = self.clean_runs(clean, job.probes)
        steps = zip(job.steps, job.pairs, strict=True)
        runs = {step: Run(*pair, failure=key[pair].failure) for step, pair in steps}
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
        job = self._coverage_job(clean, probes)
        keys = keys_of(job)
        missing = [position for position, key in enumerate(keys) if key not in self._called]
        runs = run_cached(job.only(missing), self.cache) if missing else []
        for position, run in zip(missing, runs, strict=True):
            self._called[keys[position]] = None if run.called is None else frozenset(run.called)
        return [self._called[key] for key in keys]

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
                complete=True,
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

    def verdicts_beside(self, key: CleanRun, observation: Observation) -> dict[str, Verdict]:
        """Return the verdicts, reusing the clean run's verdict if a diagnostic sees the same."""
        run, clean = observation.run, key.run.measured
        if _visible(run) != key.visible:
            return self.verdicts(observation)
        return {
            item.name: key.verdicts[item.name]
            if run.measured.get(item.name) == clean.get(item.name)
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
        """Return the job to run all probes with every loss, and to record all that a report needs.

        That is what the diagnostics measure, and the values at the sites.
        """
        measurements = (item.measurement for item in self.diagnostics)
        job = job_for(engine, probes, self.limits)
        return msgspec.structs.replace(job, measure=tuple(filter(None, measurements)), trailed=True)

    def _clean_job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job for the answer key, which also measures what may differ."""
        job = self.job(engine.without_sites(), probes)
        return msgspec.structs.replace(job, measure=(*job.measure, *MEASUREMENTS))

    def _coverage_job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """Return the job that only records which functions are called."""
        job = self.job(engine.without_sites(), probes)
        return msgspec.structs.replace(job, measure=(), covered=True)

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


def _traces_only(job: Job, *, every: bool = False) -> Job:
    """Return a job that records the walks of the gradient probes, or of all, and nothing else."""
    traceable = tuple(
        step._replace(traced=True)
        for step in job.steps
        if job.dialect.trace and (every or job.probes[step.probe].kind == "gradient")
    )
    return msgspec.structs.replace(job, steps=traceable, measure=())


def _without_sites(run: Run) -> Run:
    return msgspec.structs.replace(run, reached=[], trail={})


def _only_sites(run: Run) -> Run:
    """Return the run as a job without measurements returns it."""
    if not (run.reached or run.failure):
        return Run(run.probe, run.loss)
    return msgspec.structs.replace(run, measured={})


def _visible(run: Run) -> Run:
    """Return the run without its measurements, and without what no diagnostic may see."""
    return msgspec.structs.replace(
        run, reached=[], trail={}, called=None, trace=[], measured={}, seconds=0.0
    )
