"""The bench: what does not depend on the break, made once for all experiments that share it.

The unpatched engine's runs, the independent libraries' answers, and what the diagnostics say of a
correct engine. Every run goes through the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from harness.answer_key.subgradient import MEASUREMENT
from harness.core.errors import EnvironmentProblem
from harness.core.message import Message, message
from harness.core.run import Run, TraceStep
from harness.core.verdict import Alarm, Skipped, Verdict
from harness.core.vocabulary import Loss
from harness.diagnostics import DIAGNOSTICS, Diagnostic, Observation, ask
from harness.engines.engine import Engine
from harness.pages.probe import Probe
from harness.runs.coverage import functions_with_sites
from harness.runs.host import EngineDoesNotLoad
from harness.runs.oracles import ask_library, why_missing
from harness.runs.protocol import Job
from harness.runs.store import Store, keys_of, run_kept
from harness.sandbox.limits import Limits

Pair = tuple[str, Loss | None]
"""A probe's name and a loss."""

Item = tuple[int, Loss | None]
"""A probe's index and a loss."""


@dataclass(frozen=True, eq=False)
class Clean:
    """A run of the unpatched engine, the answer key, and what the diagnostics say of it."""

    run: Run
    independent: Mapping[str, Run | Skipped]
    verdicts: Mapping[str, Verdict]

    @cached_property
    def alarms(self) -> dict[str, Message]:
        """What is said against it, by diagnostic."""
        said = self.verdicts.items()
        return {name: verdict.message for name, verdict in said if isinstance(verdict, Alarm)}

    @cached_property
    def seen(self) -> Run:
        """What of the run diagnostics look at, but for what each of them has measured."""
        return _seen(self.run)


class Bench:
    """What does not depend on the break, made once for all experiments that share it."""

    def __init__(
        self,
        store: Store,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
        limits: Limits | None = None,
        explain: bool = False,
        select: bool = False,
    ) -> None:
        """With `explain`, reports say what wrong numbers look like and where they come from.

        With `select`, only probes that call a changed function are run, and what the patch
        evaluates to is not recorded, so that some stages are unknown: worth it for many probes.
        """
        self.store, self.diagnostics, self.limits = store, diagnostics, limits
        self.explain, self.select = explain, select
        self._clean: dict[bytes, Clean] = {}
        self._called: dict[bytes, frozenset[str] | None] = {}

    def clean(self, engine: Engine, probes: Sequence[Probe]) -> dict[Pair, Clean]:
        """The unpatched engine's runs, and what every diagnostic says of them.

        Raises EnvironmentProblem where the engine does not load.
        """
        job = self.job(replace(engine, sites=()), probes)
        job = msgspec.structs.replace(job, measure=(*job.measure, MEASUREMENT))
        keys = dict(zip(job.items, keys_of(job), strict=True))
        unknown = tuple(item for item in job.items if keys[item] not in self._clean)
        if unknown:
            self._meet(engine, msgspec.structs.replace(job, items=unknown), keys)
        return {(probes[item[0]].name, item[1]): self._clean[keys[item]] for item in job.items}

    def _meet(self, engine: Engine, job: Job, keys: Mapping[Item, bytes]) -> None:
        """Run what is not known yet of the unpatched engine, and hear what is said of it."""
        try:
            runs = run_kept(job, self.store, self.limits)
        except EngineDoesNotLoad as error:
            raise EnvironmentProblem(
                f"the engine {engine.name} does not load even unpatched: {error}",
                "make it importable first; breaklab breaks only what works",
            ) from None
        answers = self._ask([(job.probes[index], loss) for index, loss in job.items])
        for item, run in zip(job.items, runs, strict=True):
            seen = Observation(job.probes[item[0]], run, answers[run.probe, run.loss])
            self._clean[keys[item]] = Clean(run, seen.independent, self.hear(seen))

    def broken(self, clean: Engine, engine: Engine, probes: Sequence[Probe]) -> list[Run]:
        """The patched engine's runs; an engine that does not even load fails every probe.

        With `select`, what cannot come to the patch is not run: it ends as unpatched.
        """
        job = self.job(engine, probes)
        wanted = self._wanted(clean, job) if self.select else job.items
        asked = msgspec.structs.replace(job, items=wanted, trailed=not self.select)
        try:
            runs = run_kept(asked, self.store, self.limits)
        except EngineDoesNotLoad as error:
            return [
                Run(probes[index].name, loss, failure=error.failure) for index, loss in job.items
            ]
        found = dict(zip(wanted, runs, strict=True))
        keys = self.clean(clean, probes) if len(found) < len(job.items) else {}
        for index, loss in job.items:
            if (index, loss) not in found:
                name = probes[index].name
                failure = keys[name, loss].run.failure
                found[index, loss] = Run(name, loss, failure=failure)
        return [found[item] for item in job.items]

    def meet(self, engine: Engine, probes: Sequence[Probe]) -> None:
        """Make known of the unpatched engine all that experiments on these probes will ask.

        Raises EnvironmentProblem where the engine does not load.
        """
        self.clean(engine, probes)
        if self.select:
            self._coverage(engine, probes)

    def _wanted(self, clean: Engine, job: Job) -> tuple[Item, ...]:
        """The items in which the unpatched engine calls a function that the patch changes."""
        changed = functions_with_sites(clean.root, clean.sources, job.sites)
        if changed is None:
            return job.items
        called = zip(job.items, self._coverage(clean, job.probes), strict=True)
        return tuple(item for item, names in called if names is None or changed & names)

    def _coverage(self, clean: Engine, probes: Sequence[Probe]) -> list[frozenset[str] | None]:
        """The functions that the unpatched engine calls, for each probe and loss."""
        job = self.job(replace(clean, sites=()), probes)
        job = msgspec.structs.replace(job, measure=(), covered=True)
        keys = keys_of(job)
        unknown = tuple(
            item for item, key in zip(job.items, keys, strict=True) if key not in self._called
        )
        if unknown:
            job = msgspec.structs.replace(job, items=unknown)
            for key, run in zip(keys_of(job), run_kept(job, self.store, self.limits), strict=True):
                self._called[key] = None if run.called is None else frozenset(run.called)
        return [self._called[key] for key in keys]

    def trails(self, engine: Engine, probes: Sequence[Probe]) -> dict[Pair, Mapping[str, int]]:
        """What an engine evaluates to at its sites."""
        if not probes:
            return {}
        job = msgspec.structs.replace(self.job(engine, probes), measure=())
        runs = run_kept(job, self.store, self.limits)
        return {(run.probe, run.loss): run.trail for run in runs}

    def walks(self, engine: Engine, probes: Sequence[Probe]) -> dict[Pair, Sequence[TraceStep]]:
        """The backward walks of an engine, where it can record them."""
        if not probes:
            return {}
        job = msgspec.structs.replace(self.job(engine, probes), measure=(), traced=True)
        try:
            runs = run_kept(job, self.store, self.limits)
        except EngineDoesNotLoad:
            return {}
        return {(run.probe, run.loss): run.trace for run in runs}

    def job(self, engine: Engine, probes: Sequence[Probe]) -> Job:
        """All of the probes, with every loss that they take."""
        return Job(
            dialect=engine.dialect,
            root=str(engine.root),
            sources=dict(engine.sources),
            sites=engine.sites,
            probes=tuple(probes),
            items=tuple((i, loss) for i, probe in enumerate(probes) for loss in probe.losses),
            measure=tuple(
                measurement for each in self.diagnostics if (measurement := each.measurement)
            ),
        )

    def missing(self) -> dict[str, Message]:
        """The diagnostics whose library is not there, with the remedy."""
        asked = {each.name: each.library for each in self.diagnostics if each.library}
        reasons = {name: why_missing(library) for name, library in asked.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def hear(self, observation: Observation) -> dict[str, Verdict]:
        """What every diagnostic says."""
        return {each.name: ask(each, observation) for each in self.diagnostics}

    def hear_beside(self, key: Clean, observation: Observation) -> dict[str, Verdict]:
        """As `hear`; but who sees nothing that the unpatched engine did not show says the same."""
        run, known = observation.run, key.run.measured
        if _seen(run) != key.seen:
            return self.hear(observation)
        return {
            each.name: key.verdicts[each.name]
            if run.measured.get(each.name) == known.get(each.name)
            else ask(each, observation)
            for each in self.diagnostics
        }

    def _ask(
        self, pairs: Sequence[tuple[Probe, Loss | None]]
    ) -> dict[Pair, dict[str, Run | Skipped]]:
        """The independent libraries' answers to each probe and loss."""
        names = sorted({each.library for each in self.diagnostics if each.library})
        answers = {name: ask_library(name, pairs, self.store) for name in names}
        unfit = Skipped(message("the library cannot run such a probe"))
        return {
            (probe.name, loss): {
                name: known.get((probe.name, loss), unfit) for name, known in answers.items()
            }
            for probe, loss in pairs
        }


def _seen(run: Run) -> Run:
    """The run without its measurements, and without what no diagnostic may look at."""
    return msgspec.structs.replace(
        run, reached=[], trail={}, called=None, trace=[], measured={}, seconds=0.0
    )
