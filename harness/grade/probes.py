"""Probes that a learner wrote: reading them, and what they do to a break.

A probe must run on the clean engine repeatably and without an alarm before it can judge a broken
one. It kills a break if a diagnostic raises an alarm on it that is not raised on the engine without
a break: a trial decides that, and the lab says how far the fault got. A process ended by a signal,
a limit or an exit raises no alarm: any probe can do that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import msgspec

from harness.core import read_text
from harness.core.errors import PageError, UsageError
from harness.core.message import Message, joined, message
from harness.core.report import RunReport, SiteReport
from harness.core.rounding import repeats
from harness.core.run import Run
from harness.core.vocabulary import Alarm, Stage
from harness.diagnostics import Observation
from harness.diagnostics.crash import CRASH
from harness.engines.engine import Engine
from harness.experiment.baseline import UNREPEATABLE, Baseline, Context, RunId
from harness.experiment.lab import run_lab
from harness.experiment.patching import Experiment, prepare
from harness.grade.suite import Reason
from harness.grade.trial import TrialVerdict, TrialVersion, judge
from harness.grade.twins import compose
from harness.pages.front_matter import Claims
from harness.pages.page import Page
from harness.pages.probe import Probe, read_probes
from harness.runs.cache import Cache

PROBE_ROUNDS = 4
"""The number of rewrites of a break on which a probe must raise the same alarm."""

_ENDS = {
    *("SystemExit", "KeyboardInterrupt", "ProcessExit", "ForgedResult"),
    *("MemoryError", "TimeLimit", "ProcessorTimeLimit", "ResultTooLarge"),
}


class ProbeTrial:
    """Sound probes on one break, which has a site in the engine, and on its twins.

    `seed` must be unknown to the author of untrusted probes. `cache` is only useful for a seed that
    is used again.
    """

    path = "loaded"

    def __init__(
        self,
        page: Page,
        probes: Sequence[Probe],
        context: Context,
        seed: bytes,
        cache: Cache | None = None,
    ) -> None:
        self.page, self.engine, self.seed = page, context.engine, seed
        self.probes = {probe.name: probe for probe in probes}
        self.baseline = context.baseline
        self.alone = Baseline(cache or Cache(None), self.baseline.diagnostics, self.baseline.limits)
        self.clean = self.baseline.clean(context.engine, probes)
        self._alarms: dict[str, set[str]] = {}
        """The diagnostics that raise an alarm under every rewrite of the break, by probe."""
        self.ended: dict[str, str] = {}
        """The probes ended by a signal, a limit or an exit, and how."""

    def judge(self, rounds: int = PROBE_ROUNDS) -> TrialVerdict[str]:
        """Return the probes that kill the break, and those that recognise its code."""
        return judge(self, Random(self.seed), lambda _: rounds)

    def alarms(self, probe: str) -> list[str]:
        """Return the diagnostics that raise an alarm on a probe under every rewrite."""
        names = (diagnostic.name for diagnostic in self.baseline.diagnostics)
        return [name for name in names if name in self._alarms[probe]]

    def tests(self) -> list[str]:
        """Return the names of all probes."""
        return list(self.probes)

    def failing(
        self, version: TrialVersion, number: int, tests: Sequence[str], until: str | None = None
    ) -> list[str]:
        """Return all probes on which a diagnostic raises an alarm."""
        del until  # each probe has a process of its own, and all are run at once
        engine = self._engine(version, number)
        runs = self.alone.broken(self.engine, engine, [self.probes[name] for name in tests])
        alarms: dict[str, set[str]] = {name: set() for name in tests}
        for run in runs:
            if _was_ended(run):
                self.ended.setdefault(run.probe, str(run.failure))
            else:
                alarms[run.probe].update(self._raised(run))
        if version == "broken":
            if number:
                alarms = {name: raised & self._alarms[name] for name, raised in alarms.items()}
            self._alarms = alarms
        return [name for name in tests if alarms[name]]

    def _engine(self, version: TrialVersion, number: int) -> Engine:
        composed = compose(self.engine, self.page, self.seed + bytes([number]))
        assert composed is not None  # it has a site
        files: Mapping[str, str] = composed.broken if version == "broken" else composed.twin
        return replace(self.engine, sources={**self.engine.sources, **files}, sites=())

    def _raised(self, run: Run) -> Iterator[str]:
        """Yield the diagnostics that raise an alarm on a run, and none on the clean engine."""
        key = self.clean[run.probe, run.loss]
        observation = Observation(self.probes[run.probe], run, key.oracles)
        for name, verdict in self.baseline.verdicts_beside(key, observation).items():
            if isinstance(verdict, Alarm) and name not in key.alarms:
                yield name


def _was_ended(run: Run) -> bool:
    """Whether a signal, a limit or an exit ended the run, rather than an exception."""
    kind = run.failure.type if run.failure else ""
    return kind in _ENDS or kind.startswith("SIG")


# ----- A submission -----

TEST_FAILED = "test"
"""The name that stands for a diagnostic if a test fails."""

LARGEST_LEAF = 100_000
"""The largest number of elements of a leaf; a probe is a small program."""


class Soundness(msgspec.Struct, frozen=True):
    """The problems of a probe on the unbroken engine; a sound probe has none."""

    probe: str
    problems: list[Message]


class Attack(msgspec.Struct, frozen=True):
    """What the probes did to one break."""

    break_: str = msgspec.field(name="break")
    killed_by: dict[str, list[str]]
    """The diagnostics that raise an alarm, by probe; `TEST_FAILED` for a test that fails."""
    stage: Stage | None
    """The last stage that the fault reached in any of the tests or probes; None if unknown."""
    why: Message
    sites: list[SiteReport]
    runs: list[RunReport]
    """The runs of the probes; those of tests have no report."""
    recognised: list[str] = []
    """The tests and probes that also fail on a twin, a correct engine with different code."""
    ended: dict[str, str] = {}
    """The tests and probes that ended by a signal, a limit or an exit, which is not a kill."""
    reason: Reason | None = None
    """Why tests do not kill, as the calls of the changed code show; None if that is not known."""


def read_submission(path: Path) -> tuple[Probe, ...]:
    """Return the probes in a learner's file.

    Raises UsageError for a file without any; PageError for one that cannot be read, is not Python
    text, or has functions that are not probes.
    """
    probes = read_probes(read_text(path), str(path))
    refuse_duplicates(probes)
    if not probes:
        remedy = (
            "define one at the top level: a test, `def test_sum(lib):`, or a probe, "
            "`def my_probe(x=(4, 3)):`, with a docstring"
        )
        raise UsageError(message("no test and no probe in {path}", path=path), remedy)
    for probe in probes:
        for leaf in probe.leaves:
            if math.prod(leaf.shape or ()) > LARGEST_LEAF:
                problem = message(
                    "the leaf `{leaf}` of `{probe}` is {shape}",
                    leaf=leaf.name,
                    probe=probe.function,
                    shape=leaf.shape,
                )
                most = message("use at most {most} elements", most=LARGEST_LEAF)
                raise PageError(str(path), 1, problem, most)
    return probes


def check_soundness(probes: Sequence[Probe], context: Context) -> list[Soundness]:
    """Check that each probe runs on the clean engine, repeatably and without an alarm.

    If a probe does not run there, or hangs, nothing else is checked.
    """
    if not probes:
        return []
    engine, baseline = context.engine, context.baseline
    first = Baseline(Cache(None), (CRASH,), baseline.limits).clean(engine, probes)
    crashes = {
        pair: message("it fails on the unbroken engine: {failure}", failure=reason.message)
        for pair, clean in first.items()
        if isinstance(reason := clean.verdicts[CRASH.name], Alarm)
    }
    if crashes:
        return [Soundness(probe.name, _problems_of(probe, crashes)) for probe in probes]
    problems: dict[RunId, Message] = {}
    for pair, clean in baseline.clean(engine, probes).items():
        if not repeats(clean.run, first[pair].run):
            problems[pair] = UNREPEATABLE
        elif clean.alarms:
            alarms = joined(
                message("{diagnostic}: {alarm}", diagnostic=name, alarm=alarm)
                for name, alarm in clean.alarms.items()
            )
            problems[pair] = message(
                "it raises an alarm on the unbroken engine: {alarms}", alarms=alarms
            )
        elif failures := [m.failure for m in clean.run.measured.values() if m.failure and m.ours]:
            problems[pair] = message(
                "a measurement fails on the unbroken engine: {failure}",
                failure=failures[0],
            )
    return [Soundness(probe.name, _problems_of(probe, problems)) for probe in probes]


def _problems_of(probe: Probe, problems: Mapping[RunId, Message]) -> list[Message]:
    """Return the distinct problems of a probe, under any loss."""
    own = (problem for (name, _), problem in problems.items() if name == probe.name)
    return list(dict.fromkeys(own))


def attack_break(
    break_id: str,
    probes: Sequence[Probe],
    context: Context,
    seed: bytes,
    rounds: int = PROBE_ROUNDS,
    cache: Cache | None = None,
) -> Attack:
    """Return what sound probes do to a break: what kills it, or where it is lost.

    `seed`, `rounds` and `cache` are those of a `ProbeTrial`.
    """
    experiment = prepare_break(break_id, probes, context)
    trial = ProbeTrial(experiment.page, probes, context, seed, cache)
    verdict = trial.judge(rounds)
    runs = run_lab(experiment, context.baseline, causes=True).runs
    stages = get_args(Stage)
    reached = [(run.stage, run.why) for run in runs if run.stage]
    stage, why = max(reached, key=lambda reason: stages.index(reason[0]))
    if not verdict.killers and stage == "revealed":  # nothing that counts revealed it
        stage, why = "not-revealed", _why_not(verdict.recognising, trial.ended)
    return Attack(
        break_=break_id,
        killed_by={name: trial.alarms(name) for name in verdict.killers},
        stage=stage,
        why=why,
        sites=experiment.sites,
        runs=runs,
        recognised=sorted(verdict.recognising),
        ended={} if verdict.killers else trial.ended,
    )


def _why_not(recognising: Sequence[str], ended: Mapping[str, str]) -> Message:
    """Return why tests that fail on a break do not kill it."""
    for name in recognising:
        return recognises(name)
    for name, how in ended.items():
        return ends(name, how)
    return message("it does not fail every time")


def ends(test: str, how: str) -> Message:
    """Return the message about a test that ends its process."""
    return message("`{test}` ends its process, which is not a kill: {how}", test=test, how=how)


def recognises(test: str) -> Message:
    """Return the message about a test that fails on a twin."""
    return message(
        "`{test}` fails on a correct engine that is written differently: it recognises code, "
        "not behaviour",
        test=test,
    )


# ----- A page with other probes -----


def refuse_duplicates(probes: Sequence[Probe]) -> None:
    """Raise PageError for a name that is defined twice: only the last function would run."""
    for function, times in Counter(probe.function for probe in probes).items():
        if times > 1:
            problem = message(
                "`{function}` is defined {times} times", function=function, times=times
            )
            remedy = "name each function once"
            raise PageError(probes[0].path, probes[0].line, problem, remedy)


def prepare_break(break_id: str, probes: Sequence[Probe], context: Context) -> Experiment:
    """Put a break into the engine, with these probes and nothing that its page states.

    Raises UsageError if there is no such break.
    """
    return prepare_bare(context.catalogue.page(break_id, "break"), probes, context)


def prepare_bare(page: Page, probes: Sequence[Probe], context: Context) -> Experiment:
    """Put a page's patch into the engine, with these probes and nothing that the page states."""
    without_claims = replace(page, expect={None: {}}, claims={None: Claims()})
    experiment = prepare(without_claims, context.catalogue, context.engine)
    return replace(experiment, probes=tuple(probes), questions=())
