"""Which probes an unbroken foreign engine can run, and what it gets wrong on the others.

A break is judged on a foreign engine only if the unbroken engine is right: its clean run has to
agree with ours on the same probe. If it does not, the engine lacks something, gives a name another
meaning, or has a bug.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from harness.answer_key.outcome import KINKS, OUTPUT, judge
from harness.core.message import EMPTY, Message, message, verbatim
from harness.core.run import Array, Failure, Run, pack
from harness.core.vocabulary import Loss
from harness.engines.adapter.unsupported import LIBRARY_SPECIFIC
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, Pair, does_not_load
from harness.pages.probe import Probe
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import EngineDoesNotLoad

Conformance = Literal["fits", "lacks", "differs", "bug"]

LACKING = {"Unsupported", "NotImplementedError", "AttributeError", "TypeError", "NameError"}
"""The errors that are raised if something is missing, or not supported for these arguments."""


class Fit(msgspec.Struct, frozen=True):
    """How an unbroken engine fits a probe."""

    probe: str
    verdict: Conformance
    """fits; lacks something; differs in what a name means; bug: a wrong gradient, a crash."""
    reason: Message = msgspec.field(default=EMPTY, name="said")
    """The reason, or the evidence."""
    kind: str = ""
    """The kind of a bug: crash, shape, value, aliased, mutated-input ..."""


REFUSAL = "the engine refuses this: {text}"

ORDER: tuple[Conformance, ...] = ("lacks", "differs", "bug", "fits")
"""If the losses of a probe lead to different verdicts, the first in this order counts."""


def fit(engine: Engine, probes: Sequence[Probe], baseline: Baseline) -> dict[str, Fit]:
    """Return how the engine fits each probe, by name; each runs once for a baseline."""
    fits: dict[object, Fit] = baseline.memo.setdefault(fit, {})
    sources = frozenset(engine.sources.items())
    keys = {probe.name: (sources, probe.name, probe.source) for probe in probes}
    new = [probe for probe in probes if keys[probe.name] not in fits]
    fits |= {keys[name]: item for name, item in _fit_all(engine, new, baseline).items()}
    return {name: fits[key] for name, key in keys.items()}


def usable_probes(fits: Iterable[Fit]) -> set[str]:
    """Return the names of the probes on which a break may be judged."""
    return {item.probe for item in fits if item.verdict == "fits"}


def _fit_all(engine: Engine, probes: Sequence[Probe], baseline: Baseline) -> dict[str, Fit]:
    """Run the probes on the engine and on ours, and compare."""
    portable = [probe for probe in probes if probe.kind in ("gradient", "steps")]
    runs = _clean_runs(engine, portable, baseline)
    reference = _clean_runs(find_engine(), portable, baseline)
    layer = verbatim(f"{LIBRARY_SPECIFIC}: a layer's methods")
    fits = {probe.name: Fit(probe.name, "lacks", layer) for probe in probes}
    for probe in portable:
        keys = {loss: reference[probe.name, loss] for loss in probe.losses}
        both = [_fit(runs[probe.name, loss], keys, loss, engine) for loss in probe.losses]
        fits[probe.name] = min(both, key=lambda item: ORDER.index(item.verdict))
    return fits


def _clean_runs(engine: Engine, probes: Sequence[Probe], baseline: Baseline) -> dict[Pair, Run]:
    job = baseline.job(engine.without_sites(), probes)
    try:
        runs = run_cached(msgspec.structs.replace(job, measure=(KINKS,)), baseline.cache)
    except EngineDoesNotLoad as error:
        raise does_not_load(engine, error) from None
    return {(run.probe, run.loss): run for run in runs}


def _fit(run: Run, keys: Mapping[Loss | None, Run], loss: Loss | None, engine: Engine) -> Fit:
    key = keys[loss]
    if key.failure:
        reason = message("the probe expects a refusal, and engines may choose what they refuse")
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
    if judged.kind == "aliased":  # no number is wrong, unless something is added in place
        return Fit(run.probe, "fits", judged.evidence, "aliased")
    if judged.kind == "value" and judged.arrays and _is_slight(*judged.arrays):
        slight = message(
            "{difference}: an epsilon, or a different precision", difference=judged.evidence
        )
        return Fit(run.probe, "differs", slight)
    is_forward = judged.first_divergence == OUTPUT or (
        judged.kind == "shape" and judged.entry == "loss"
    )
    if is_forward or judged.kind == "dtype":
        return Fit(run.probe, "differs", judged.evidence)
    return Fit(run.probe, "bug", judged.evidence, judged.kind or "")


def _without_addresses(failure: Failure) -> Failure:
    """Return the failure without object addresses, which differ between processes."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", failure.message)
    return msgspec.structs.replace(failure, message=text)


def _is_refusal(failure: Failure, engine: Engine) -> bool:
    """Whether the forward pass ended in an error that the engine raised on purpose."""
    if failure.phase != "the forward pass":
        return False
    start = failure.message[:12]
    is_in_source = any(start in text for text in engine.sources.values())
    return failure.type == "AssertionError" or (bool(start) and is_in_source)


def _is_slight(actual: Array, expected: Array) -> bool:
    """Whether they agree to 1e-4, so that no formula or operand is wrong."""
    return bool(np.allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-7))


def _as_stored(key: Run, run: Run) -> Run:
    """Return our run in the precision of the engine's run."""
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
