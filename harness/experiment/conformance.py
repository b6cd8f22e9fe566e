"""Which probes an unbroken foreign engine can run, and what it gets wrong on the others.

A break is judged on a foreign engine only if the unbroken engine is right: its clean run has to
agree with ours on the same probe. If it does not, the engine lacks something, gives a name another
meaning, or has a bug; or breaklab cannot tell. A bug is claimed only if it shows again when the
probe runs alone, in a new process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from harness.answer_key.outcome import Judgement, judge
from harness.core.errors import BreaklabError, InternalError
from harness.core.message import EMPTY, Kind, Message, message, verbatim
from harness.core.rounding import agree
from harness.core.run import LIMITS, Array, Failure, FailureOrigin, Run, pack
from harness.core.vocabulary import Lack, Loss
from harness.engines.calling import library_specific
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, RunId, job_for
from harness.experiment.patching import prepare
from harness.experiment.placement import is_wrong
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cached_runs import run_cached

Conformance = Literal["fits", "lacks", "unjudged", "differs", "bug"]

ABSENT = {"Unsupported", "NotImplementedError", "ImportError", "ModuleNotFoundError"}
"""The errors that say that something is missing, wherever they are raised."""

LACKING = {"AttributeError", "TypeError", "NameError", "KeyError", "IndexError"}
"""The errors of Python that show, outside the backward pass, that something is not supported."""


class Fit(msgspec.Struct, frozen=True):
    """How an unbroken engine fits a probe."""

    probe: str
    verdict: Conformance
    """fits; lacks something; unjudged: breaklab cannot tell; differs in what a name means; bug: a
    wrong gradient, a crash."""
    reason: Message = msgspec.field(default=EMPTY, name="said")
    """The reason, or the evidence."""
    kind: str = ""
    """The kind of a bug: crash, shape, value, aliased, mutated-input, second-backward ... Of the
    others: refusal, convention, drawn, adapter, probe, limit, not-reproducible."""
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
    kinds = ("gradient", "steps") if engine.dialect.kind else ("gradient", "steps", "module")
    portable = [probe for probe in probes if probe.kind in kinds]
    runs = baseline.covered(engine, portable)
    layer = verbatim(str(library_specific("a layer's methods")))
    fits = {
        probe.name: Fit(probe.name, "lacks", layer, lack=Lack.LIBRARY_FEATURE) for probe in probes
    }
    lacking = {probe.name: item for probe in portable if (item := _lacking(probe, runs))}
    fits |= lacking
    judged = [probe for probe in portable if probe.name not in lacking]
    correct = _answer_key(judged, baseline)
    fits |= {probe.name: _fit_probe(probe, runs, correct, engine) for probe in judged}
    wrong = [probe for probe in judged if fits[probe.name].verdict == "bug"]
    again = _runs_again(engine, wrong, baseline)
    for probe in wrong:
        second = _fit_probe(probe, again, correct, engine)
        fits[probe.name] = _confirmed(fits[probe.name], second)
    return fits


def _lacking(probe: Probe, runs: Mapping[RunId, Run]) -> Fit | None:
    """Return the fit of a probe for which the engine lacks something, whatever the answer key says.

    None if the answer key is needed, as for most probes that the engine can run.
    """
    failures = [] if probe.refused else [runs[probe.name, loss].failure for loss in probe.losses]
    items = (_fit_failure(probe.name, failure) for failure in failures if failure)
    return next((item for item in items if item.verdict == "lacks"), None)


def _runs_again(engine: Engine, probes: Sequence[Probe], baseline: Baseline) -> dict[RunId, Run]:
    """Return further runs of the unbroken engine, each in a new process.

    The called functions are not recorded, so the keys differ from those of the first runs.
    """
    job = job_for(engine.without_sites(), probes, baseline.limits)
    runs = run_cached(job, baseline.cache) if probes else []
    return {(run.probe, run.loss): run for run in runs}


def _answer_key(probes: Sequence[Probe], baseline: Baseline) -> dict[RunId, Run]:
    """Return the runs of our engine.

    Raises InternalError if a shared probe that need not be refused fails, other than at a limit.
    """
    correct = baseline.bare().clean_runs(find_engine(), probes)
    sound = {probe.name for probe in probes if probe.shared and not probe.refused}
    for (probe, _), run in correct.items():
        if run.failure and run.failure.type not in LIMITS and probe in sound:
            raise InternalError(
                message(
                    "the reference engine fails on the probe `{probe}`: {failure}",
                    probe=probe,
                    failure=run.failure.sentence,
                ),
                "breaklab's own files are damaged: install it again, in a new environment",
            )
    return correct


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
    probe: Probe, runs: Mapping[RunId, Run], correct: Mapping[RunId, Run], engine: Engine
) -> Fit:
    """Return the fit of a probe over all of its losses."""
    own = {loss: correct[probe.name, loss] for loss in probe.losses}
    is_copy = engine.dialect.kind is None
    both = [_fit(probe, runs[probe.name, loss], own, loss, is_copy) for loss in probe.losses]
    item = min(both, key=lambda item: ORDER.index(item.verdict))
    if item.verdict != "bug" or probe.kind != "steps" or not probe.retains_graph:
        return item
    (loss,) = probe.losses
    if passes := _passes(runs[probe.name, loss], _as_stored(own[loss], runs[probe.name, loss])):
        if not passes.is_first_right:
            return item
        if passes.evidence is not None:
            return Fit(probe.name, "bug", passes.evidence, SECOND_BACKWARD)
    if any("retain_graph" in text for text in engine.sources.values()):
        return item
    reason = message(
        "{evidence}: its backward pass has no option to retain the graph", evidence=item.reason
    )
    return msgspec.structs.replace(item, verdict="differs", reason=reason, kind="")


SECOND_BACKWARD = "second-backward"
"""The kind of a bug that shows only in a second backward pass through the same results."""


@dataclass(frozen=True)
class _Passes:
    """The gradients of a leaf after two backward passes that share results."""

    is_first_right: bool
    evidence: Message | None
    """What is wrong after the second pass; None if it added, replaced or changed nothing."""


def _passes(run: Run, correct: Run) -> _Passes | None:
    """Return what two backward passes left in a leaf; None if the run has no such numbers.

    An engine may add the second gradient to the first one, replace the first one, or free the graph
    and leave everything as it was. Any other number is the gradient of nothing.
    """
    entries = [[entry.get("gradient") for entry in log] for log in (run.log, correct.log)]
    pairs = [(one, other) for one, other in zip(*entries, strict=False) if one and other]
    if run.failure or len(pairs) != 2:
        return None
    (first, own), (second, total) = [(one.numpy(), other.numpy()) for one, other in pairs]
    if second.shape != total.shape or not agree(first, own):
        return _Passes(bool(first.shape == own.shape and agree(first, own)), None)
    if any(agree(second, choice) for choice in (total, total - own, own)):
        return _Passes(True, None)
    worst = np.unravel_index(np.argmax(np.abs(second - total)), total.shape)
    evidence = message(
        "the gradient is {actual} after the second pass, not {total} (the sum of both) or {last} "
        "(the second alone)",
        actual=f"{second[worst]:.4g}",
        total=f"{total[worst]:.4g}",
        last=f"{total[worst] - own[worst]:.4g}",
    )
    return _Passes(True, evidence)


def _fit(
    probe: Probe, run: Run, correct: Mapping[Loss | None, Run], loss: Loss | None, is_copy: bool
) -> Fit:
    """Return the fit with one loss; a copy of minigrad has to do what minigrad does."""
    own = correct[loss]
    if own.failure and is_copy and not run.failure:
        reason = message(
            "the engine accepts it, but minigrad refuses it: {failure}",
            failure=own.failure.sentence,
        )
        return Fit(run.probe, "bug", reason, "guard-lost")
    if own.failure and probe.refused:
        reason = message("the probe expects a refusal, and engines may choose what they refuse")
        return Fit(run.probe, "lacks", reason)
    if own.failure:
        reason = message("it fails on minigrad too: {failure}", failure=own.failure.sentence)
        return Fit(run.probe, "unjudged", reason, "probe")
    if run.failure and is_copy and run.failure.type not in LIMITS:
        return Fit(run.probe, "bug", run.failure.sentence, "crash")
    if run.failure:
        return _fit_failure(run.probe, run.failure)
    # An id that is drawn for each node is in no number that is compared.
    draws, run = run.generator_moved, msgspec.structs.replace(run, generator_moved=False)
    own, run = _as_stored(own, run), msgspec.structs.replace(run, reached=[0])
    siblings = [_as_stored(other, run) for name, other in correct.items() if name != loss]
    judged = judge(run, own, siblings)
    if judged.kind == "dtype" or (judged.kind == "shape" and _is_forward(judged)):
        numbers = judge(*_in_one_form(run, own), siblings)
        judged = numbers if numbers.kind in ("value", "non-finite") else judged
    if judged.outcome == "convention":
        return Fit(run.probe, "fits", judged.evidence, "convention")
    if judged.outcome == "disguised-correct":
        drawn = message(Kind.GENERATOR)
        return Fit(run.probe, "fits", drawn, "drawn") if draws else Fit(run.probe, "fits")
    if judged.kind == "aliased":  # no number is wrong, unless something is added in place
        return Fit(run.probe, "fits", judged.evidence, "aliased")
    if is_copy:
        return Fit(run.probe, "bug", judged.evidence, judged.kind or "")
    if judged.kind == "value" and judged.arrays and _is_slight(*judged.arrays):
        slight = message(
            "{difference}: an epsilon, or a different precision", difference=judged.evidence
        )
        return Fit(run.probe, "differs", slight)
    is_form = judged.kind in ("dtype", "shape")
    is_choice = is_form or not (probe.is_arithmetic or _has_own_nan(run, own))
    if judged.kind == "dtype" or (_is_forward(judged) and is_choice):
        return Fit(run.probe, "differs", judged.evidence)
    return Fit(run.probe, "bug", judged.evidence, judged.kind or "")


def _is_forward(judged: Judgement) -> bool:
    """Whether the output differs, so that the gradients may be right for what is computed."""
    first = judged.first_divergence
    return (first is not None and first.kind is Kind.OUTPUT) or (
        judged.kind == "shape" and judged.entry == "loss"
    )


def _has_own_nan(run: Run, correct: Run) -> bool:
    """Whether a number is NaN that is not NaN in the correct run."""
    pairs = [(one.numpy(), other.numpy()) for one, other in _pairs(run, correct)]
    return any(
        one.shape == other.shape and bool((np.isnan(one) & ~np.isnan(other)).any())
        for one, other in pairs
    )


def _pairs(run: Run, correct: Run) -> Iterator[tuple[Array, Array]]:
    """Yield the arrays that both runs have: the outputs, gradients and entries of the log."""
    entries: Iterable[tuple[Mapping[str, Array | None], Mapping[str, Array | None]]] = (
        ({"": run.output}, {"": correct.output}),
        (run.gradients, correct.gradients),
        *zip(run.log, correct.log, strict=False),
    )
    for own, others in entries:
        for name, other in others.items():
            if (one := own.get(name)) and other:
                yield one, other


def _in_one_form(run: Run, correct: Run) -> tuple[Run, Run]:
    """Return both runs with the numbers of each pair of arrays in one shape and one dtype.

    Arrays of the same size take the shape of the correct one, and floats the lower precision.
    """

    def alike(one: Array | None, other: Array | None) -> tuple[Array | None, Array | None]:
        if not (one and other):
            return one, other
        own, correct = one.numpy(), other.numpy()
        if own.size == correct.size:
            own = own.reshape(correct.shape)
        lower = own.dtype.kind == "f" and own.dtype.itemsize < correct.dtype.itemsize
        dtype = own.dtype if lower else correct.dtype
        with np.errstate(all="ignore"):
            return pack(own.astype(dtype)), pack(correct.astype(dtype))

    def convert(position: int, this: Run) -> Run:
        def pick(name: str, own: Mapping[str, Any], others: Mapping[str, Any]) -> Array | None:
            return alike(own.get(name), others.get(name))[position]

        logs = list(zip(run.log, correct.log, strict=False))
        return msgspec.structs.replace(
            this,
            output=alike(run.output, correct.output)[position],
            gradients={n: pick(n, run.gradients, correct.gradients) for n in this.gradients},
            log=[{n: pick(n, *pair) for n in pair[position]} for pair in logs],
            leaf_log=[],
            large=[],
        )

    return convert(0, run), convert(1, correct)


def _without_addresses(failure: Failure) -> Failure:
    """Return the failure without object addresses, which differ between processes."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", failure.message)
    return msgspec.structs.replace(failure, message=text)


def _fit_failure(probe: str, failure: Failure) -> Fit:
    """Return what a failure says about the engine, given whose code raised what, and when."""
    origin = failure.origin or FailureOrigin("engine", in_backward=True)  # such as a signal

    failure = _without_addresses(failure)

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
    if origin.in_leaf:
        return fit("lacks", message("it makes no such leaf: {failure}", failure=failure.sentence))
    if failure.type in LACKING and not origin.in_backward:
        return fit("lacks", text)
    return fit("bug", failure.sentence, "crash")


def missing_name(origin: FailureOrigin) -> Message:
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


def _as_stored(correct: Run, run: Run) -> Run:
    """Return our run in the precision of the engine's run, with the created leaves that it has."""
    correct = correct.only(run.leaves.keys())
    if run.not_compared:
        correct = msgspec.structs.replace(correct, leaf_log=[], large=[])
    if not (correct.output and run.output) or correct.output.dtype == run.output.dtype:
        return correct
    kind = np.dtype(run.output.dtype)
    if kind.kind != "f":
        return correct

    def cast(array: Array | None) -> Array | None:
        return None if array is None else pack(array.numpy().astype(kind))

    def cast_all(entry: Mapping[str, Array]) -> dict[str, Array]:
        return {name: pack(array.numpy().astype(kind)) for name, array in entry.items()}

    return msgspec.structs.replace(
        correct,
        leaves=cast_all(correct.leaves),
        output=cast(correct.output),
        gradients={name: cast(gradient) for name, gradient in correct.gradients.items()},
        log=[cast_all(entry) for entry in correct.log],
        leaf_log=[cast_all(entry) for entry in correct.leaf_log],
    )


# ----- Resemblance to a break -----


def resembling_probes(
    page: Page, engine: Engine, catalogue: Catalogue, baseline: Baseline
) -> list[str]:
    """Return the page's probes on which the engine is wrong just as ours is with the break.

    Our engine accumulates gradients in the same way. Empty if the engine is right on some probe on
    which the break shows: then it has a different bug.
    """
    fits = fit(engine, catalogue.probes_for(page), baseline)
    names = [name for name, item in fits.items() if item.verdict in ("fits", "bug")]
    wrong = {name for name in names if fits[name].verdict == "bug"}
    if not wrong:
        return []
    variant = catalogue.page(engine.like, "variant") if engine.like else None
    try:
        ours = prepare(page, catalogue, find_engine(), variant=variant, probes=names)
    except BreaklabError:  # the break does not apply to that variant
        return []
    correct = baseline.clean_runs(ours.clean, ours.probes)
    runs = baseline.broken(ours.clean, ours.broken, ours.probes)
    broken = {(run.probe, run.loss): run for run in runs}
    theirs = baseline.clean_runs(engine, ours.probes)
    if any(_differ(broken[pair], correct[pair]) for pair in broken if pair[0] not in wrong):
        return []
    unlike = {pair[0] for pair in broken if _differ(theirs[pair], broken[pair])}
    return [name for name in names if name in wrong - unlike]


def _differ(run: Run, other: Run) -> bool:
    """Whether two runs end differently, apart from shared memory and from draws.

    Failures are equal if their phase and their type are.
    """
    if run.failure and other.failure:
        ends = [(failure.phase, failure.type) for failure in (run.failure, other.failure)]
        return ends[0] != ends[1]
    # Else nothing would be compared; and an engine may draw ids from the global generator.
    reached = msgspec.structs.replace(run, reached=[0], generator_moved=False)
    return is_wrong(judge(reached, other))
