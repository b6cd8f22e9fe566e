"""Which probes an unbroken foreign engine can run, and what it gets wrong on the others.

A break is judged on a foreign engine only if the unbroken engine is right: its clean run has to
agree with ours on the same probe. If it does not, the engine lacks something, gives a name another
meaning, or has a bug; or breaklab cannot tell. A bug is claimed only if it shows again when the
probe runs alone, in a new process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from harness.answer_key.outcome import MEASUREMENTS, judge
from harness.core.errors import InternalError
from harness.core.message import EMPTY, Kind, Message, message, verbatim
from harness.core.run import LIMITS, Array, Failure, Origin, Run, pack
from harness.core.vocabulary import Lack, Loss
from harness.engines.calling import library_specific
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, Pair, does_not_load
from harness.pages.probe import Probe
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import EngineDoesNotLoad

Conformance = Literal["fits", "lacks", "unjudged", "differs", "bug"]

ABSENT = {"Unsupported", "NotImplementedError", "ImportError", "ModuleNotFoundError"}
"""The errors that say that something is missing, wherever they are raised."""

LACKING = {"AttributeError", "TypeError", "NameError", "KeyError", "IndexError"}
"""The errors of Python that show, outside the backward pass, that something is not supported."""

"""The failures that depend on what breaklab allows a run to use and to send."""


class Fit(msgspec.Struct, frozen=True):
    """How an unbroken engine fits a probe."""

    probe: str
    verdict: Conformance
    """fits; lacks something; unjudged: breaklab cannot tell; differs in what a name means; bug: a
    wrong gradient, a crash."""
    reason: Message = msgspec.field(default=EMPTY, name="said")
    """The reason, or the evidence."""
    kind: str = ""
    """The kind of a bug: crash, shape, value, aliased, mutated-input ... Of the others: refusal,
    convention, adapter, probe, limit, not-reproducible."""
    file: str = ""
    """If it failed: the engine's file, below its root, that was being executed."""
    line: int = 0
    lack: Lack | None = None
    """If it lacks something: what."""
    missing: str = ""
    """Its name, if it has one."""


ORDER: tuple[Conformance, ...] = ("lacks", "unjudged", "differs", "bug", "fits")
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
    keys = _answer_key(portable, baseline)
    layer = verbatim(str(library_specific("a layer's methods")))
    fits = {
        probe.name: Fit(probe.name, "lacks", layer, lack=Lack.LIBRARY_FEATURE) for probe in probes
    }
    for probe in portable:
        item = _fit_probe(probe, runs, keys, engine)
        if item.verdict == "bug":
            again = _clean_runs(engine, [probe], baseline, again=True)
            item = _confirmed(item, _fit_probe(probe, again, keys, engine))
        fits[probe.name] = item
    return fits


def _clean_runs(
    engine: Engine, probes: Sequence[Probe], baseline: Baseline, *, again: bool = False
) -> dict[Pair, Run]:
    """Return the unbroken engine's runs; with `again`, those of a second job.

    Nothing is measured then, so the keys differ, and the cache does not return the first runs.
    """
    job = baseline.job(engine.without_sites(), probes)
    job = msgspec.structs.replace(job, measure=() if again else MEASUREMENTS)
    try:
        runs = run_cached(job, baseline.cache)
    except EngineDoesNotLoad as error:
        raise does_not_load(engine, error) from None
    return {(run.probe, run.loss): run for run in runs}


def _answer_key(probes: Sequence[Probe], baseline: Baseline) -> dict[Pair, Run]:
    """Return the runs of our engine.

    Raises InternalError if a shared probe that need not be refused fails, other than at a limit.
    """
    keys = _clean_runs(find_engine(), probes, baseline)
    sound = {probe.name for probe in probes if probe.shared and not probe.refused}
    for (probe, _), key in keys.items():
        if key.failure and key.failure.type not in LIMITS and probe in sound:
            raise InternalError(
                message(
                    "the reference engine fails on the probe `{probe}`: {failure}",
                    probe=probe,
                    failure=key.failure.sentence,
                ),
                "breaklab's own files are damaged: install it again, in a new environment",
            )
    return keys


def _confirmed(item: Fit, again: Fit) -> Fit:
    """Return the bug, if it also showed when the probe ran alone."""
    if (again.verdict, again.kind) == (item.verdict, item.kind):
        return item
    reason = message(
        "not reproducible: {evidence}; when the probe ran alone in a new process, it did not fail "
        "in this way",
        evidence=item.reason,
    )
    return Fit(item.probe, "unjudged", reason, "not-reproducible")


def _fit_probe(
    probe: Probe, runs: Mapping[Pair, Run], keys: Mapping[Pair, Run], engine: Engine
) -> Fit:
    """Return the fit of a probe over all of its losses."""
    own = {loss: keys[probe.name, loss] for loss in probe.losses}
    both = [_fit(probe, runs[probe.name, loss], own, loss) for loss in probe.losses]
    item = min(both, key=lambda item: ORDER.index(item.verdict))
    if item.verdict == "bug" and probe.retains_graph and not _retains(engine):
        reason = message(
            "{evidence}: its backward pass has no option to retain the graph",
            evidence=item.reason,
        )
        return msgspec.structs.replace(item, verdict="differs", reason=reason, kind="")
    return item


def _retains(engine: Engine) -> bool:
    """Whether the engine knows PyTorch's option that keeps the graph for a second pass."""
    return any("retain_graph" in text for text in engine.sources.values())


def _fit(probe: Probe, run: Run, keys: Mapping[Loss | None, Run], loss: Loss | None) -> Fit:
    key = keys[loss]
    if key.failure and probe.refused:
        reason = message("the probe expects a refusal, and engines may choose what they refuse")
        return Fit(run.probe, "lacks", reason)
    if key.failure:
        reason = message("it fails on minigrad too: {failure}", failure=key.failure.sentence)
        return Fit(run.probe, "unjudged", reason, "probe")
    if run.failure:
        return _fit_failure(run.probe, _without_addresses(run.failure))
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
    first = judged.first_divergence
    is_forward = (first is not None and first.kind is Kind.OUTPUT) or (
        judged.kind == "shape" and judged.entry == "loss"
    )
    if is_forward or judged.kind == "dtype":
        return Fit(run.probe, "differs", judged.evidence)
    return Fit(run.probe, "bug", judged.evidence, judged.kind or "")


def _without_addresses(failure: Failure) -> Failure:
    """Return the failure without object addresses, which differ between processes."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", failure.message)
    return msgspec.structs.replace(failure, message=text)


def _fit_failure(probe: str, failure: Failure) -> Fit:
    """Return what a failure says about the engine, given whose code raised what, and when."""
    origin = failure.origin or Origin("engine", in_backward=True)  # such as a signal

    def fit(verdict: Conformance, reason: Message, kind: str = "") -> Fit:
        place = origin.file, origin.line
        return Fit(probe, verdict, reason, kind, *place, origin.lack, origin.missing)

    text = verbatim(failure.message) if failure.message else failure.sentence
    if origin.lack is Lack.NUMPY_NAME:
        return fit("lacks", missing_name(origin))
    if failure.type in LIMITS:
        reason = message("it exceeds a limit of breaklab: {failure}", failure=failure.sentence)
        return fit("unjudged", reason, "limit")
    if failure.type in ABSENT or origin.raiser == "call":
        return fit("lacks", text)
    if origin.raiser == "adapter":
        reason = message("breaklab's adapter cannot run it: {failure}", failure=failure.sentence)
        return fit("unjudged", reason, "adapter")
    if origin.raiser == "probe":
        reason = message("the probe itself fails there: {failure}", failure=failure.sentence)
        return fit("unjudged", reason, "probe")
    if origin.raiser == "statement" and (failure.message or not origin.in_backward):
        return fit("lacks", message("the engine refuses this: {text}", text=text), "refusal")
    if failure.type in LACKING and not origin.in_backward:
        return fit("lacks", text)
    return fit("bug", failure.sentence, "crash")


def missing_name(origin: Origin) -> Message:
    """Return the sentence about a name that NumPy does not have, or no longer has."""
    return message(
        "NumPy {version} has no `{name}`, which is used in {place}",
        version=np.__version__,
        name=origin.missing,
        place=f"{origin.file}:{origin.line}" if origin.file else "a library",
    )


def _is_slight(actual: Array, expected: Array) -> bool:
    """Whether they agree to 1e-4, so that no formula or operand is wrong."""
    return bool(np.allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-7))


def _as_stored(key: Run, run: Run) -> Run:
    """Return our run in the precision of the engine's run, with the created leaves that it has."""
    key = key.only(run.leaves.keys())
    if run.not_compared:
        key = msgspec.structs.replace(key, leaf_log=[], large=[])
    if not (key.output and run.output) or key.output.dtype == run.output.dtype:
        return key
    kind = np.dtype(run.output.dtype)
    if kind.kind != "f":
        return key

    def cast(array: Array | None) -> Array | None:
        return None if array is None else pack(array.numpy().astype(kind))

    def cast_all(entry: Mapping[str, Array]) -> dict[str, Array]:
        return {name: pack(array.numpy().astype(kind)) for name, array in entry.items()}

    return msgspec.structs.replace(
        key,
        leaves=cast_all(key.leaves),
        output=cast(key.output),
        gradients={name: cast(gradient) for name, gradient in key.gradients.items()},
        log=[cast_all(entry) for entry in key.log],
        leaf_log=[cast_all(entry) for entry in key.leaf_log],
    )
