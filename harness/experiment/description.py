"""The report on one run: its outcome, the verdicts on it, and the evidence of what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from graphlib import CycleError

from harness.answer_key.divergence import Divergence, first_divergence
from harness.answer_key.fingerprint import fingerprint
from harness.answer_key.outcome import Judgement
from harness.answer_key.reason import reason_of
from harness.answer_key.stage import Infection, infection_of, stage_of
from harness.answer_key.walks import forward_order, visits
from harness.core.message import EMPTY, Message, message
from harness.core.report import DrawnComparison, DrawnNumbers, Graph, GraphNode, RunReport
from harness.core.rounding import margin, wrong_entries
from harness.core.run import CREATED, Array, Run, TraceStep
from harness.core.vocabulary import Alarm, Declined, Phase, Silent, Skipped, Verdict
from harness.experiment.baseline import CleanRun, RunId
from harness.experiment.patching import DISGUISED


@dataclass(frozen=True)
class RunPair:
    """A run of the broken engine and the run of the clean one with the same probe and loss."""

    broken: Run
    clean: Run

    @cached_property
    def infection(self) -> Infection:
        """Whether an intermediate number was wrong, if the trails and walks were recorded."""
        broken, clean = ({**run.trail, **visits(run.trace)} for run in (self.broken, self.clean))
        return infection_of(broken, clean, (self.broken.trace, self.clean.trace))


@dataclass(frozen=True)
class JudgedRun:
    """A run of the broken engine, beside that of the clean engine, and its outcome."""

    run: Run
    clean: CleanRun
    """The clean run; without verdicts as long as these are not known."""
    judgement: Judgement
    inside: RunPair | None = None
    """What happened inside, if it was recorded to explain the outcome."""

    @property
    def pair(self) -> RunId:
        """The probe's name and the loss."""
        return self.run.probe, self.run.loss


def describe_unreached(judged: JudgedRun) -> RunReport:
    """Return the report on a run that never reached the patch: that of the clean run."""
    clean = judged.clean
    if clean.unreached is None:
        clean.unreached = describe(judged, clean.verdicts)
    return clean.unreached


def describe(
    judged: JudgedRun,
    verdicts: Mapping[str, Verdict],
    *,
    correct: bool = False,
    guard_is_lost: bool = False,
) -> RunReport:
    """Return the report on a run, without what its page states.

    Parameters
    ----------
    judged : JudgedRun
        The run and its outcome. An alarm is a catch only if the same diagnostic is silent on the
        clean run.
    verdicts : mapping of str to Verdict
        The verdict of each diagnostic on it.
    correct : bool
        Whether the page is a correct rewrite, and no break.
    guard_is_lost : bool
        Whether the broken engine accepts another probe that it must refuse.
    """
    run, clean, judgement = judged.run, judged.clean, judged.judgement
    alarms = {name: v for name, v in verdicts.items() if isinstance(v, Alarm)}
    repeatable = _is_repeatable(run, clean, verdicts)
    if judgement.outcome == "not-reached":
        verdicts = {}
    caught = {name: v for name, v in alarms.items() if not isinstance(clean.verdicts[name], Alarm)}
    stage_given = partial(
        stage_of,
        judgement.outcome,
        judged.inside.infection if judged.inside and judgement.outcome == DISGUISED else None,
        correct=correct,
        kind=judgement.kind,
        guard_is_lost=guard_is_lost,
    )
    stage, why = stage_given(list(caught))
    no_alarm = [name for name, v in verdicts.items() if isinstance(v, Silent)]
    inside = EMPTY
    if judgement.outcome == DISGUISED and not run.failure:
        _, inside = stage_given(())
    return RunReport(
        probe=run.probe,
        loss=run.loss,
        outcome=judgement.outcome,
        kind=judgement.kind,
        evidence=judgement.evidence,
        stage=stage,
        why=why,
        inside=inside,
        because=_reason(judged),
        fingerprint=None,
        first_divergence=judgement.first_divergence,
        better_than_correct=judgement.better_than_correct,
        expected=None,
        agrees=None,
        caught_by=list(caught),
        missed_by=no_alarm if judgement.outcome in ("silent-corruption", "crash") else [],
        declined={name: v.reason for name, v in verdicts.items() if isinstance(v, Declined)},
        skipped={name: v.reason for name, v in verdicts.items() if isinstance(v, Skipped)},
        alarms={name: v.message for name, v in caught.items()},
        wrong_reason={name: v.message for name, v in alarms.items() if name not in caught},
        margins=_margins(caught, clean.verdicts),
        repeatable=repeatable,
        no_alarm=no_alarm,
    )


def _reason(judged: JudgedRun) -> Message:
    """Return why the run ends like this on its input, if what was recorded inside it says so."""
    pair, outcome = judged.inside, judged.judgement.outcome
    if pair is None or outcome not in (DISGUISED, "silent-corruption", "crash"):
        return EMPTY
    if outcome == DISGUISED and judged.run.failure:
        return EMPTY
    names = leaf_names(pair.clean.trace, judged.clean.run.leaves)
    is_right = outcome == DISGUISED
    return reason_of(pair.broken, pair.clean, judged.run.reached, names, is_right=is_right)


def _is_repeatable(run: Run, clean: CleanRun, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether running again would give the same report."""
    unjudged = [v for v in verdicts.values() if isinstance(v, Declined | Skipped)]
    return run.repeatable and clean.run.repeatable and all(v.repeatable for v in unjudged)


def _margins(caught: Mapping[str, Alarm], clean: Mapping[str, Verdict]) -> dict[str, float]:
    """Return how far each alarm exceeds the clean engine's noise, in orders of magnitude."""
    margins = {}
    for name, alarm in caught.items():
        noise = getattr(clean[name], "deviation", None)
        if alarm.deviation is not None and noise is not None:
            margins[name] = round(margin(alarm.deviation, noise), 1)
    return margins


def explain(
    judged: JudgedRun, constants: Collection[float]
) -> dict[str, Message | DrawnComparison | Graph | None]:
    """Return what a wrong array looks like, where the backward walk first went wrong, and pictures.

    The keys are fields of `RunReport`. `constants` are those of the probe and the patch: one of
    them may be the cause of a wrong factor.
    """
    evidence: dict[str, Message | DrawnComparison | Graph | None] = {}
    run, judgement, clean_run = judged.run, judged.judgement, judged.clean.run
    leaves = clean_run.leaves
    if judgement.outcome == "silent-corruption":
        evidence["losses"] = compare_losses(run, clean_run)
    if judgement.arrays:
        evidence["array"] = _small(judgement.arrays)
        actual, expected = (array.numpy() for array in judgement.arrays)
        constants = {*constants, *_few_values(leaves)}
        evidence["fingerprint"] = fingerprint(
            actual, expected, sizes=_sizes(leaves), constants=constants
        )
    failed = run.failure is not None and run.failure.phase is Phase.BACKWARD
    inside = judged.inside or RunPair(run, clean_run)
    broken, clean = inside.broken.trace, inside.clean.trace
    names = leaf_names(clean, leaves)
    if divergence := first_divergence(broken, clean, names, failed=failed):
        evidence["first_divergence"] = divergence.sentence
        evidence["graph"] = _graph(divergence, names)
    return evidence


WHOLE, NEAR = 12, 8
"""The most nodes of a graph that is drawn whole, and the number drawn of a larger one."""


def _graph(divergence: Divergence, names: Mapping[int, str]) -> Graph | None:
    """Return the graph around a divergence; None if it is not at one place."""
    place = divergence.parting
    if place is None:
        return None
    try:
        steps = forward_order([*divergence.walk, *divergence.inserted])
    except CycleError:  # the engine says that a node is computed from itself
        return None
    inserted = {step.index for step in divergence.inserted}
    numbers = {index: number for number, index in enumerate(steps, start=1)}
    labels: dict[int | None, tuple[int, str]] = {
        index: (numbers[index], step.op or names.get(index, "")) for index, step in steps.items()
    }
    return Graph(
        nodes=[
            GraphNode(
                *labels[i], step.value.shape, [labels.get(p) for p in step.parents], i in inserted
            )
            for i, step in _near(steps, place.node).items()
        ],
        size=len(steps),
        node=numbers[place.node],
        operand=place.operand,
        in_backward=place.in_backward,
    )


def _near(steps: Mapping[int, TraceStep], centre: int) -> Mapping[int, TraceStep]:
    """Return the nodes of a small graph, or those nearest to one of its nodes, in their order."""
    if len(steps) <= WHOLE:
        return steps
    neighbours: dict[int, list[int]] = {index: [] for index in steps}
    for index, step in steps.items():
        for parent in step.parents:
            if parent is not None and parent in steps:
                neighbours[index].append(parent)
                neighbours[parent].append(index)
    near = [centre]
    for index in near:  # grows meanwhile
        near += [n for n in dict.fromkeys(neighbours[index]) if n not in near]
    return {index: steps[index] for index in sorted(near[:NEAR], key=list(steps).index)}


LONGEST_AXIS, MOST_STEPS = 8, 64
"""The longest axis of an array that is drawn, and the most steps of a series."""


def _small(arrays: tuple[Array, Array]) -> DrawnComparison | None:
    """Return the actual and the expected array, if both are small, real and flat enough."""
    both = [array.numpy() for array in arrays]
    if max(a.size for a in both) < 2:  # the evidence already says it all
        return None
    for array in both:
        fits = array.ndim <= 2 and array.size and max(array.shape, default=1) <= LONGEST_AXIS
        if not fits or array.dtype.kind == "c":
            return None
    actual, expected = (DrawnNumbers(a.shape, a.astype(float).ravel().tolist()) for a in both)
    if actual.shape != expected.shape:
        return DrawnComparison(actual, expected)
    return DrawnComparison(actual, expected, wrong_entries(both[0], both[1]).ravel().tolist())


def compare_losses(run: Run, clean: Run) -> DrawnComparison | None:
    """Return the losses of both logs at the same steps; None if there are not at least two.

    One log may end before the other.
    """
    series = run.losses, clean.losses
    if min(map(len, series)) < 2:
        return None
    longest = max(map(len, series))
    count = min(longest, MOST_STEPS)
    steps = [round(i * (longest - 1) / (count - 1)) for i in range(count)]
    actual, expected = (
        [losses[step] for step in sorted({*steps, len(losses) - 1}) if step < len(losses)]
        for losses in series
    )
    return DrawnComparison(
        DrawnNumbers((len(actual),), actual), DrawnNumbers((len(expected),), expected)
    )


def _sizes(leaves: Mapping[str, Array]) -> dict[Message, int]:
    """Return the axis lengths, which may explain a wrong factor."""
    return {
        message("the length of axis {axis} of {leaf}", axis=axis, leaf=name): length
        for name, leaf in leaves.items()
        for axis, length in enumerate(leaf.shape)
    }


def _few_values(leaves: Mapping[str, Array]) -> Iterator[float]:
    """Yield the values of small leaves, which the author may have chosen."""
    for leaf in leaves.values():
        values = leaf.numpy()
        if values.size <= 8 and values.dtype.kind != "c":
            yield from values.ravel().tolist()


def leaf_names(walk: Sequence[TraceStep], leaves: Mapping[str, Array]) -> dict[int, str]:
    """Return the names of the leaves of a walk, by their values.

    Of leaves with equal values, the first in the probe is the first that the output is computed
    from.
    """
    names, found = [n for n in leaves if not CREATED.fullmatch(n)], dict[int, str]()
    for step in sorted(walk, key=lambda step: step.index):
        if step.op or step.index in found:
            continue
        name = next((name for name in names if leaves[name] == step.value), None)
        if name is not None:
            found[step.index] = name
            names.remove(name)
    return found
