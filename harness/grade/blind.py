"""Blind trials: does a test fail because of what the engine does, or because of how it is written?

Broken engines and their twins run in random order, in children that receive the same input for
both. A break counts as killed only by what fails on every broken engine and on none of the twins;
what fails on a twin recognises code. An end by a signal, a limit or an exit is not a failure:
anyone can end a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from harness.core.run import Run
from harness.core.verdict import Alarm
from harness.diagnostics import Observation
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, CleanRun, Pair
from harness.experiment.context import Context
from harness.grade.twins import compose
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache

ROUNDS = 3
"""Each round has a broken engine and a twin of its own. A probe that fails at random half of
the time passes all rounds in one case of 64."""

TEST_FAILED = "test"
"""The name that stands for a diagnostic if a test fails."""

_ENDS = {
    *("SystemExit", "KeyboardInterrupt", "ProcessExit", "ForgedResult"),
    *("MemoryError", "TimeLimit", "ProcessorTimeLimit", "ResultTooLarge"),
}

Catch = tuple[str, str]
"""A probe, and the diagnostic that raises an alarm on it, or `TEST_FAILED`."""


@dataclass
class Trial:
    """What the probes do on broken engines and on twins."""

    killed: set[Catch] = field(default_factory=set)
    """The alarms raised on every broken engine by probes that raise none on any twin."""
    recognised: set[str] = field(default_factory=set)
    """The probes that raise any alarm on a twin."""
    ended: dict[str, str] = field(default_factory=dict)
    """The probes ended by a signal, a limit or an exit on a broken engine or a twin, and how."""


def run_trial(
    page: Page,
    probes: Sequence[Probe],
    context: Context,
    seed: bytes,
    *,
    rounds: int = ROUNDS,
    cache: Cache | None = None,
) -> Trial:
    """Run sound probes on a break and its twins, composed from a seed.

    Parameters
    ----------
    page : Page
        The break; it has a site in the engine.
    probes : sequence of Probe
        Probes and tests.
    context : Context
        The engine, and the clean runs.
    seed : bytes
        Must be unknown to the author of untrusted probes.
    rounds : int
        How many pairs to run; fewer if no probe can count any more.
    cache : Cache, optional
        Only useful for a seed that is used again.
    """
    baseline = context.baseline
    clean = baseline.clean(context.engine, probes)
    alone = Baseline(cache or Cache(None), baseline.diagnostics, baseline.limits)
    random, trial = Random(seed), Trial()
    for number in range(rounds):
        composed = compose(context.engine, page, seed + bytes([number]))
        assert composed is not None
        versions = [("broken", composed.broken), ("twin", composed.twin)]
        random.shuffle(versions)
        alarms: dict[str, set[Catch]] = {}
        for version, files in versions:
            engine = _with_files(context.engine, files)
            runs = alone.broken(context.engine, engine, probes)
            alarms[version] = set(_alarms(runs, probes, clean, baseline))
            ends = ((run.probe, str(run.failure)) for run in runs if _was_ended(run))
            trial.ended = {**dict(ends), **trial.ended}
        trial.recognised |= {probe for probe, _ in alarms["twin"]}
        killed = alarms["broken"] & trial.killed if number else alarms["broken"]
        trial.killed = {catch for catch in killed if catch[0] not in trial.recognised}
        if not trial.killed:
            break
    return trial


def _with_files(engine: Engine, files: Mapping[str, str]) -> Engine:
    return replace(engine, sources={**engine.sources, **files}, sites=())


def _alarms(
    runs: Sequence[Run],
    probes: Sequence[Probe],
    clean: Mapping[Pair, CleanRun],
    baseline: Baseline,
) -> Iterator[Catch]:
    """Yield the alarms that the clean engine does not raise."""
    by_name = {probe.name: probe for probe in probes}
    for run in runs:
        probe, key = by_name[run.probe], clean[run.probe, run.loss]
        if _was_ended(run):
            continue
        if probe.kind == "test":
            if run.failure:
                yield probe.name, TEST_FAILED
            continue
        verdicts = baseline.verdicts_beside(key, Observation(probe, run, key.oracles))
        for name, verdict in verdicts.items():
            if isinstance(verdict, Alarm) and name not in key.alarms:
                yield probe.name, name


def _was_ended(run: Run) -> bool:
    """Whether a signal, a limit or an exit ended the run, rather than an exception."""
    kind = run.failure.type if run.failure else ""
    return kind in _ENDS or kind.startswith("SIG")
