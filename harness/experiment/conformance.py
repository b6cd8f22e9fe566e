"""Which probes an unbroken foreign engine can run, and what it gets wrong on the others.

A break is judged on a foreign engine only if the unbroken engine is right: its clean run has to
agree with ours on the same probe. If it does not, the engine lacks something, gives a name another
meaning, or has a bug; or breaklab cannot tell. A bug is claimed only if it shows again when the
probe runs alone, in a new process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from harness.answer_key.outcome import judge
from harness.core.errors import BreaklabError, InternalError
from harness.core.message import EMPTY, Kind, Message, message, verbatim
from harness.core.rounding import agree
from harness.core.run import LIMITS, Failure, FailureOrigin, Run
from harness.core.vocabulary import Lack, Loss
from harness.engines.calling import library_specific
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, RunId, does_not_load, job_for
from harness.experiment.comparison import (
    as_stored,
    has_own_nan,
    has_wrong_output,
    in_one_form,
    is_of_output,
    is_slight,
)
from harness.experiment.patching import prepare
from harness.experiment.placement import is_wrong
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.patch.side import quiet_parse
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import EngineDoesNotLoad

Conformance = Literal["fits", "lacks", "unjudged", "differs", "bug"]

ABSENT = {"Unsupported", "NotImplementedError", "ImportError", "ModuleNotFoundError"}
"""The errors that say that something is missing, wherever they are raised."""

LACKING = {"AttributeError", "TypeError", "NameError", "KeyError", "IndexError"}
"""The errors of Python that show, outside the backward pass and unless the engine offers the op on
these operands, that something is not supported."""


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
    return fits | _guarded(engine, portable, fits, runs, baseline)


def _guarded(
    engine: Engine,
    probes: Sequence[Probe],
    fits: Mapping[str, Fit],
    runs: Mapping[RunId, Run],
    baseline: Baseline,
) -> dict[str, Fit]:
    """Return the bugs that an engine's own checks of its gradients show.

    Such a check is in a function that the backward pass of every probe calls, and fails although
    the forward pass accepted the operands. In a rule, it may say that the gradient is not
    implemented.
    """
    gradients = [probe for probe in probes if probe.kind == "gradient"]
    failures = {
        probe.name: failure
        for probe in gradients
        if fits[probe.name].kind == "refusal"
        for loss in probe.losses
        if (failure := runs[probe.name, loss].failure) and failure.origin
        if failure.origin.in_backward and failure.origin.accepted
    }
    right = [probe for probe in gradients if fits[probe.name].verdict == "fits"]
    if not failures or len(right) < _ENOUGH:
        return {}
    called = frozenset.intersection(*filter(None, baseline.coverage(engine, right)))
    bugs = {
        name: Fit(name, "bug", _without_addresses(failure).sentence, "crash", at.file, at.line)
        for name, failure in failures.items()
        if (at := failure.origin) and _function_of(at, engine) & called
    }
    shown = [probe for probe in gradients if probe.name in bugs]
    for (name, _), run in _runs_again(engine, shown, baseline).items():
        failed = run.failure and run.failure.type == failures[name].type
        bugs[name] = _confirmed(bugs[name], bugs[name] if failed else Fit(name, "fits"))
    return bugs


_ENOUGH = 3
"""The number of correct probes that show that a function is not the rule of a single op."""


def _function_of(origin: FailureOrigin, engine: Engine) -> frozenset[str]:
    """Return the function of the place, as `harness.runs.recorder` names it, among called ones."""
    path, name = engine.root / origin.file, origin.function.rpartition(".")[2]
    tree = quiet_parse(engine.sources.get(origin.file, ""))
    lines = [
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == name
        and node.lineno <= origin.line <= (node.end_lineno or 0)
    ]
    return frozenset(f"{path}:{line}:{name}" for line in lines)


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
    try:
        runs = run_cached(job, baseline.cache) if probes else []
    except EngineDoesNotLoad as error:
        raise does_not_load(engine, error) from None
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
    if passes := _passes(runs[probe.name, loss], as_stored(own[loss], runs[probe.name, loss])):
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
        item = _fit_failure(run.probe, run.failure)
        return _with_output(item, run, own) if probe.is_arithmetic else item
    # An id that is drawn for each node is in no number that is compared.
    draws, run = run.generator_moved, msgspec.structs.replace(run, generator_moved=False)
    own, run = as_stored(own, run), msgspec.structs.replace(run, reached=[0])
    siblings = [as_stored(other, run) for name, other in correct.items() if name != loss]
    judged = judge(run, own, siblings)
    if judged.kind == "dtype" or (judged.kind == "shape" and is_of_output(judged)):
        numbers = judge(*in_one_form(run, own), siblings)
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
    if judged.kind == "value" and judged.arrays and is_slight(*judged.arrays):
        slight = message(
            "{difference}: an epsilon, or a different precision", difference=judged.evidence
        )
        return Fit(run.probe, "differs", slight)
    is_form = judged.kind in ("dtype", "shape")
    is_choice = is_form or not (probe.is_arithmetic or has_own_nan(run, own))
    if judged.kind == "dtype" or (is_of_output(judged) and is_choice):
        return Fit(run.probe, "differs", judged.evidence)
    return Fit(run.probe, "bug", judged.evidence, judged.kind or "")


def _with_output(item: Fit, run: Run, correct: Run) -> Fit:
    """Return the bug of a backward pass; that of the forward pass, if its output is wrong already.

    The operands of an operator are numbers and tensors, so that no convention makes another output.
    """
    if item.verdict != "bug" or not has_wrong_output(run, correct):
        return item
    correct = as_stored(correct, run)
    done = msgspec.structs.replace(
        correct, output=run.output, failure=None, reached=[0], generator_moved=False
    )
    judged = judge(done, correct)
    reason = message("{evidence}; then {failure}", evidence=judged.evidence, failure=item.reason)
    return msgspec.structs.replace(item, reason=reason, kind=judged.kind)


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
    if origin.raiser == "result":
        return fit("bug", text, "value")
    if failure.type in LACKING and not origin.in_backward and not origin.accepted:
        return fit(
            "lacks", message("it might not be written for these arguments: {text}", text=text)
        )
    return fit("bug", failure.sentence, "crash")


def missing_name(origin: FailureOrigin) -> Message:
    """Return the sentence about a name that NumPy does not have, or no longer has."""
    return message(
        "NumPy {version} has no `{name}`, which is used in {place}",
        version=np.__version__,
        name=origin.missing,
        place=f"{origin.file}:{origin.line}" if origin.file else "a library",
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
