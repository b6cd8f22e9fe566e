"""Whether a patch on a foreign engine is the change that its page describes.

The probes on which the page says that the break does not show are the guards: the patched engine
has to stay right on them. A guard is inconclusive if it works differently on this engine: if the
loss itself runs the changed code, or if single numbers are reused where an array is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.answer_key.outcome import Judgement, judge
from harness.core.message import Message, message, verbatim
from harness.core.run import Run
from harness.experiment.baseline import Baseline
from harness.experiment.description import JudgedRun
from harness.experiment.patching import DISGUISED, Experiment
from harness.pages.probe import read_probes

OUTPUT_ALONE = read_probes(
    'def output_alone(x=(2, 3)):\n    """Nothing but the loss."""\n    return x\n', "(placement)"
)
"""A probe without an op: only the loss is computed and differentiated."""

REUSED = message(
    "this engine of single numbers uses a number several times, where an array is used once"
)
IN_THE_LOSS = message(
    "`backward` takes no cotangent, and the weighted sum that replaces it runs the changed code"
)


def examine(
    experiment: Experiment, baseline: Baseline, judged: Sequence[JudgedRun]
) -> tuple[Message | None, dict[str, Message]]:
    """Return why the patch is misplaced, if it is, and why some guards are inconclusive."""
    guards = {guard.name for guard in experiment.guards}
    shown = [
        item
        for item in judged
        if item.run.probe in guards
        and experiment.expected(*item.pair) == DISGUISED
        and is_wrong(item.judgement)
    ]
    silent: dict[str, Message] = {}
    if shown and _changes_the_loss(experiment, baseline):
        silent = {item.run.probe: IN_THE_LOSS for item in shown}
    elif experiment.clean.dialect.kind == "scalars":
        silent = {item.run.probe: REUSED for item in shown if _mixes(item.key.run)}
    telling = [item for item in shown if item.run.probe not in silent]
    return _sentence(experiment, telling) if telling else None, silent


def is_wrong(judgement: Judgement) -> bool:
    """Whether a number is wrong or missing; arrays that only share memory hold right numbers."""
    return judgement.outcome in ("silent-corruption", "crash") and judgement.kind != "aliased"


def _changes_the_loss(experiment: Experiment, baseline: Baseline) -> bool:
    """Whether the patch also changes the weighted sum that a backward pass starts from here."""
    dialect = experiment.clean.dialect
    if dialect.kind != "scalars" and "sum" not in f"{dialect.backward} {dialect.pull}":
        return False  # the engine takes the cotangent itself
    clean = baseline.clean(experiment.clean, OUTPUT_ALONE)
    runs = baseline.broken(experiment.clean, experiment.broken, OUTPUT_ALONE)
    return any(is_wrong(judge(run, clean[run.probe, run.loss].run)) for run in runs)


def _mixes(run: Run) -> bool:
    """Whether some leaf has another shape than the output, so that its numbers are reused."""
    shapes = {leaf.shape for leaf in run.leaves.values()}
    return run.output is None or shapes != {run.output.shape}


def _sentence(experiment: Experiment, telling: Sequence[JudgedRun]) -> Message:
    probes = list(dict.fromkeys(item.run.probe for item in telling))
    first = telling[0].judgement
    return message(
        "misplaced: the page says that the break does not show on {probes}, but on {engine} the "
        "outcome is {outcome} ({evidence})",
        probes=_listed(probes),
        engine=experiment.clean.name,
        outcome=verbatim(first.outcome),
        evidence=first.evidence,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
