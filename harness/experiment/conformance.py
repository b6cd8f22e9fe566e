"""Which probes an unbroken foreign engine can be put to, and what it gets wrong on the others.

A break is judged on a foreign engine only where the unbroken engine is right: its clean run has to
agree with ours on the same text. Where it does not, that is either something it lacks, another
meaning of a name, or a bug of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from harness.answer_key.outcome import OUTPUT, judge
from harness.answer_key.subgradient import MEASUREMENT
from harness.core.errors import EnvironmentProblem
from harness.core.message import EMPTY, Message, message, verbatim
from harness.core.run import Array, Failure, Run, pack
from harness.core.vocabulary import Loss
from harness.engines.adapter.unsupported import LIBRARY_SPECIFIC
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Bench, Pair
from harness.pages.probe import Probe
from harness.runs.host import EngineDoesNotLoad
from harness.runs.store import run_kept

Verdict = Literal["fits", "lacks", "differs", "bug"]

LACKING = {"Unsupported", "NotImplementedError", "AttributeError", "TypeError", "NameError"}
"""What is raised where something is not there, or not for such arguments."""


class Fit(msgspec.Struct, frozen=True):
    """How an unbroken engine fits a probe."""

    probe: str
    verdict: Verdict
    """fits; lacks what it asks; differs in what is meant; bug: a wrong gradient, a crash."""
    said: Message = EMPTY
    """The reason, or the evidence."""
    kind: str = ""
    """Of a bug: crash, shape, value, aliased, mutated-input ..."""


REFUSAL = "it refuses this: {text}"

ORDER: tuple[Verdict, ...] = ("lacks", "differs", "bug", "fits")
"""What decides where the losses of a probe do not agree, first things first."""


def fit(engine: Engine, probes: Sequence[Probe], bench: Bench) -> dict[str, Fit]:
    """A verdict for each probe, by name; what this bench has tried once is known to it."""
    known = _KNOWN.setdefault(bench, {})
    text = frozenset(engine.sources.items())
    keys = {probe.name: (text, probe.name, probe.source) for probe in probes}
    new = [probe for probe in probes if keys[probe.name] not in known]
    known |= {keys[name]: found for name, found in _try(engine, new, bench).items()}
    return {name: known[key] for name, key in keys.items()}


_Tried = tuple[frozenset[tuple[str, str]], str, str]
"""The engine's files, the probe and its text."""

_KNOWN: WeakKeyDictionary[Bench, dict[_Tried, Fit]] = WeakKeyDictionary()


def _try(engine: Engine, probes: Sequence[Probe], bench: Bench) -> dict[str, Fit]:
    asked = [probe for probe in probes if probe.kind in ("gradient", "steps")]
    theirs, ours = (_clean_runs(each, asked, bench) for each in (engine, find_engine()))
    found = {
        probe.name: Fit(probe.name, "lacks", verbatim(f"{LIBRARY_SPECIFIC}: a layer's methods"))
        for probe in probes
    }
    for probe in asked:
        keys = {loss: ours[probe.name, loss] for loss in probe.losses}
        fits = [_fit(theirs[probe.name, loss], keys, loss, engine) for loss in probe.losses]
        found[probe.name] = min(fits, key=lambda each: ORDER.index(each.verdict))
    return found


def _clean_runs(engine: Engine, probes: Sequence[Probe], bench: Bench) -> dict[Pair, Run]:
    job = bench.job(replace(engine, sites=()), probes)
    try:
        runs = run_kept(
            msgspec.structs.replace(job, measure=(MEASUREMENT,)), bench.store, bench.limits
        )
    except EngineDoesNotLoad as error:
        raise EnvironmentProblem(
            f"the engine {engine.name} does not load even unpatched: {error}",
            "make it importable first; breaklab breaks only what works",
        ) from None
    return {(run.probe, run.loss): run for run in runs}


def usable(fits: Collection[Fit]) -> set[str]:
    """The names of the probes that a break may be judged by."""
    return {each.probe for each in fits if each.verdict == "fits"}


def _fit(run: Run, keys: Mapping[Loss | None, Run], loss: Loss | None, engine: Engine) -> Fit:
    key = keys[loss]
    if key.failure:
        reason = message("the probe expects a refusal, and what to refuse is a choice")
        return Fit(run.probe, "lacks", reason)
    if run.failure:
        failure = _without_addresses(run.failure)
        unregistered = failure.type == "KeyError" and failure.phase == "the forward pass"
        if failure.type in LACKING or unregistered:
            reason = verbatim(failure.message) if failure.message else failure.sentence
            return Fit(run.probe, "lacks", reason)
        if _is_refusal(failure, engine):
            return Fit(run.probe, "lacks", message(REFUSAL, text=failure.message))
        return Fit(run.probe, "bug", failure.sentence, "crash")
    siblings = [_as_stored(other, run) for name, other in keys.items() if name != loss]
    judged = judge(msgspec.structs.replace(run, reached=[0]), _as_stored(key, run), siblings)
    if judged.outcome == "convention":
        return Fit(run.probe, "fits", judged.evidence, "convention")
    if judged.outcome == "disguised-correct":
        return Fit(run.probe, "fits")
    if judged.kind == "aliased":  # no number is wrong, as long as nobody adds in place
        return Fit(run.probe, "fits", judged.evidence, "aliased")
    if judged.kind == "value" and judged.arrays and _is_slight(*judged.arrays):
        slight = message(
            "{difference}: an epsilon, or another precision", difference=judged.evidence
        )
        return Fit(run.probe, "differs", slight)
    is_forward = judged.first_divergence == OUTPUT or (
        judged.kind == "shape" and judged.entry == "loss"
    )
    if is_forward or judged.kind == "dtype":
        return Fit(run.probe, "differs", judged.evidence)
    return Fit(run.probe, "bug", judged.evidence, judged.kind or "")


def _without_addresses(failure: Failure) -> Failure:
    """The failure without addresses of objects, which differ from process to process."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", failure.message)
    return msgspec.structs.replace(failure, message=text)


def _is_refusal(failure: Failure, engine: Engine) -> bool:
    """The forward pass ended in an error in the engine's own words, which it chose to raise."""
    if failure.phase != "the forward pass":
        return False
    words = failure.message[:12]
    mine = any(words in text for text in engine.sources.values())
    return failure.type == "AssertionError" or (bool(words) and mine)


def _is_slight(actual: Array, expected: Array) -> bool:
    """Whether they agree to one in ten thousand, so that no formula or operand is wrong."""
    return bool(np.allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-7))


def _as_stored(key: Run, run: Run) -> Run:
    """Our run in the precision in which the engine computes, where it keeps another one."""
    if not (key.output and run.output) or key.output.dtype == run.output.dtype:
        return key
    kind = np.dtype(run.output.dtype)
    if kind.kind != "f":
        return key

    def cast(array: Array | None) -> Array | None:
        return None if array is None else pack(array.numpy().astype(kind))

    return msgspec.structs.replace(
        key,
        output=cast(key.output),
        gradients={name: cast(gradient) for name, gradient in key.gradients.items()},
        log=[
            {name: pack(a.numpy().astype(kind)) for name, a in entry.items()} for entry in key.log
        ],
    )
