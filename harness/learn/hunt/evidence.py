"""Buying a clue: the hidden bug is run on the clue's probe, beside the correct engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from harness.core.errors import UsageError
from harness.core.message import EMPTY, Kind, Message
from harness.core.rounding import agree
from harness.core.run import CREATED, Array, Run
from harness.core.vocabulary import Alarm, Declined, Loss, Silent, Verdict
from harness.diagnostics import DIAGNOSTICS, Observation
from harness.diagnostics.trajectory import compare_logs
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, CleanRun
from harness.experiment.patching import Experiment
from harness.learn.hunt.pool import GRADIENTS, LOG, Clue, Suspect
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache

Log = Sequence[dict[str, Array]]


class Check(msgspec.Struct, frozen=True):
    """The verdict of a diagnostic on one run."""

    loss: Loss | None
    verdict: str
    """`alarm`, `silent`, `declined`, or `false alarm`: the correct engine raises it too."""
    text: Message


class Curve(msgspec.Struct, frozen=True):
    """An entry of a log, beside that of the correct engine."""

    entry: str
    expected: list[float] | None
    """The correct numbers, step by step; None for an array with more than one element."""
    actual: list[float] | None
    differs_from: int | None
    """The first step at which it differs; None if it does not."""
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Its shape at that step and the correct one, if these differ."""


class Gradient(msgspec.Struct, frozen=True):
    """The gradient of a leaf, beside that of the correct engine; None if there is none."""

    leaf: str
    expected: Array | None
    actual: Array | None
    differs: bool


class Evidence(msgspec.Struct, frozen=True):
    """What a clue shows."""

    clue: str
    passes: float
    checks: list[Check] = []
    curves: list[Curve] = []
    gradients: list[Gradient] = []
    loss: Loss | None = None
    """The loss of the gradients."""
    failure: Message = EMPTY
    """How the run of a log or of gradients failed."""


@dataclass(frozen=True)
class HiddenBug:
    """The bug of a hunt, in the engine. Nothing about it is shown before the hunt has ended."""

    suspect: Suspect
    experiment: Experiment
    catalogue: Catalogue
    cache: Cache

    @property
    def page(self) -> Page:
        """The page of the bug."""
        return self.experiment.page

    @property
    def engine(self) -> Engine:
        """The unbroken engine."""
        return self.experiment.clean


def investigate(bug: HiddenBug, clue: Clue) -> Evidence:
    """Return what the clue shows of the bug.

    Raises UsageError if a library is missing.
    """
    probe = bug.catalogue.shared_probes[clue.probe]
    chosen = [item for item in DIAGNOSTICS if item.name == clue.kind]
    baseline = Baseline(bug.cache, chosen)
    for reason in baseline.missing().values():
        raise UsageError(reason, "buy another clue; no hunt needs this library")
    clean = baseline.clean(bug.engine, [probe])
    runs = baseline.broken(bug.engine, bug.experiment.broken, [probe])
    if clue.kind == LOG:
        return _read_log(clue, clean[probe.name, None].run, runs[0])
    if clue.kind == GRADIENTS:
        loss = probe.losses[-1]
        return _gradients(clue, clean[probe.name, loss].run, runs[-1])
    checks = [_check(baseline, probe, clean[run.probe, run.loss], run, clue) for run in runs]
    return Evidence(clue.name, clue.passes, checks=checks)


# ----- Verdicts -----


def _check(baseline: Baseline, probe: Probe, clean: CleanRun, run: Run, clue: Clue) -> Check:
    """Return the verdict on a broken run; one that never reaches the bug ends as the clean one."""
    verdict = clean.verdicts[clue.kind]
    if run.reached or run.failure:
        observation = Observation(probe, run, clean.oracles)
        both = baseline.verdicts_beside(clean, observation)
        verdict = both[clue.kind]
    return Check(run.loss, *_in_words(verdict, clean.verdicts[clue.kind]))


def _in_words(verdict: Verdict, clean: Verdict) -> tuple[str, Message]:
    match verdict:
        case Alarm(message=text):
            return ("false alarm" if isinstance(clean, Alarm) else "alarm"), text
        case Silent():
            return "silent", EMPTY
        case Declined(reason=reason):
            return "declined", reason
    return "declined", verdict.reason


# ----- Pictures -----


def _read_log(clue: Clue, clean: Run, broken: Run) -> Evidence:
    """Return the log beside the correct one; a run that never reaches the bug has the same."""
    run = broken if broken.reached or broken.failure else clean
    failure = run.failure.sentence if run.failure else EMPTY
    names = dict.fromkeys(name for snapshot in (*clean.log, *run.log) for name in snapshot)
    curves = [_curve(name, run.log, clean.log) for name in names]
    return Evidence(clue.name, clue.passes, curves=curves, failure=failure)


def _curve(name: str, actual: Log, expected: Log) -> Curve:
    step = _first_difference(_only(name, actual), _only(name, expected))
    shapes = None
    if step is not None and step < min(len(actual), len(expected)):
        both = actual[step].get(name), expected[step].get(name)
        if both[0] and both[1] and both[0].shape != both[1].shape:
            shapes = both[0].shape, both[1].shape
    return Curve(name, _numbers(name, expected), _numbers(name, actual), step, shapes)


def _only(name: str, log: Log) -> Log:
    return [{name: snapshot[name]} if name in snapshot else {} for snapshot in log]


def _numbers(name: str, log: Log) -> list[float] | None:
    arrays = [snapshot[name].numpy() for snapshot in log if name in snapshot]
    if any(array.size != 1 for array in arrays):
        return None
    return [float(array.item()) for array in arrays]


def _first_difference(actual: Log, expected: Log) -> int | None:
    """Return the first step at which a log differs from the correct one by more than rounding."""
    if not _differ(actual, expected):
        return None
    steps = range(min(len(actual), len(expected)))
    return next(
        (k for k in steps if _differ(actual[: k + 1], expected[: k + 1])),
        len(steps),
    )


def _differ(actual: Log, expected: Log) -> bool:
    return isinstance(compare_logs(actual, expected), Alarm)


def _gradients(clue: Clue, clean: Run, broken: Run) -> Evidence:
    """Return the gradients beside the correct ones."""
    run = broken if broken.reached or broken.failure else clean
    failure = run.failure.sentence if run.failure else EMPTY
    gradients = []
    for leaf in clean.leaves:
        expected, actual = clean.gradients.get(leaf), run.gradients.get(leaf)
        if CREATED.fullmatch(leaf) and expected == actual:
            continue
        gradients.append(Gradient(leaf, expected, actual, _are_different(actual, expected)))
    return Evidence(
        clue.name,
        clue.passes,
        gradients=gradients if failure.kind is Kind.NOTHING else [],
        loss=clean.loss,
        failure=failure,
    )


def _are_different(actual: Array | None, expected: Array | None) -> bool:
    if actual is None or expected is None:
        return actual is not expected
    return not agree(actual.numpy(), expected.numpy())
