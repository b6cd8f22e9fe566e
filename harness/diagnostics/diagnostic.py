"""Diagnostics: what they may use, how they compare arrays, and how their verdicts are obtained.

A diagnostic evaluates an `Observation`, which holds a run and independent libraries' runs of the
same probe, but not the answer key. Most diagnostics compare arrays that should be equal: shape,
then value (`dtype` checks dtypes).

Numbers may differ by rounding (`harness.core.rounding`), in the coarser of the two dtypes: an
engine that computes in float32 is right within float32's digits. An entry may depend on all
elements of the leaves and the output. Rounding is relative to the largest expected number or, in a
backward pass, to the largest entry of the cotangent if that is larger, since terms may cancel. The
additional tolerance of an ill-conditioned probe is measured (see `differences`) and passed as
slack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from harness.core.measurement import UNMEASURED, Measurement, MeasurementForm
from harness.core.message import Message, either, message, verbatim
from harness.core.rounding import agree, largest, resolution, rounding, widened, wrong_entries
from harness.core.run import GRAD, Array, Measured, NumericArray, Run, gradient_name, leaf_name
from harness.core.vocabulary import Alarm, Declined, Silent, Skipped, Verdict
from harness.pages.probe import Probe, ProbeKind

if TYPE_CHECKING:
    from harness.runs.trial import Trial


@dataclass(frozen=True)
class Observation:
    """Everything that a diagnostic may use."""

    probe: Probe
    run: Run
    independent: Mapping[str, Run | Skipped]
    """The same probe and loss on independent libraries, by name, or why there is no run."""


@dataclass(frozen=True)
class Diagnostic:
    """A check that a developer without an answer key could run."""

    name: str
    sees: str
    """What it catches, in a sentence."""
    blind: str
    """What it cannot catch by construction, in a sentence."""
    check: Callable[[Observation], Verdict]
    cost: str = "3, the run itself"
    """In forward passes of the probe; a backward pass counts as two, and P is the number of
    elements in its leaves."""
    passes: Callable[[int], float] = lambda _: 3
    """The same as a number, for a probe of P elements."""
    measure: Callable[[Trial, Run], Measured] | None = None
    """Runs the engine under test again, in its process; `check` finds the result in the run."""
    form: MeasurementForm = UNMEASURED
    """What `measure` returns; a run with anything else is refused before `check` sees it."""
    library: str | None = None
    """The independent library that it compares with."""
    kinds: tuple[ProbeKind, ...] = ("gradient",)
    looks_at_crashes: bool = False
    judged: Measurement | None = None
    """Of a diagnostic that a catalogue brings: what a child executes in runs of its own, and whose
    result is the verdict (`harness.diagnostics.own`)."""

    @property
    def measurement(self) -> Measurement | None:
        """What the child has to measure for it."""
        if self.measure is None:
            return None
        function = f"{self.measure.__module__}:{self.measure.__name__}"
        return Measurement(self.name, function, self.kinds, self.form)


def evaluate(diagnostic: Diagnostic, observation: Observation) -> Verdict:
    """Return the diagnostic's verdict on this run; `Skipped` if it does not apply."""
    if observation.probe.kind not in diagnostic.kinds:
        kinds = either(map(verbatim, diagnostic.kinds))
        return Skipped(message("it requires a probe of kind {kinds}", kinds=kinds))
    if observation.run.failure and not diagnostic.looks_at_crashes:
        return Skipped(message("the run crashed, so there is nothing to check"))
    if diagnostic.library:
        answer = observation.independent[diagnostic.library]
        if isinstance(answer, Skipped):
            return answer
        if answer.failure:
            reason = message(
                "{library} cannot run this probe: {failure}",
                library=diagnostic.library,
                failure=answer.failure.sentence,
            )
            return Declined(reason, answer.failure.repeatable)
    measured = observation.run.measured.get(diagnostic.name)
    if measured and measured.problem:
        return Declined(verbatim(measured.problem))
    if measured and measured.failure and measured.ours:
        reason = message("the measurement itself failed: {failure}", failure=measured.failure)
        return Declined(reason, measured.repeatable)
    if measured and measured.failure:
        return Alarm(
            message(
                "running the engine again for this check ended in {failure}",
                failure=measured.failure,
            )
        )
    if (diagnostic.measure or diagnostic.judged) and not measured:
        return Declined(message("it measured nothing on this run"))
    try:
        return diagnostic.check(observation)
    except Exception:
        if not measured:
            raise
        # The engine's process may have sent any numbers.
        return Declined(message("what it measured on this run cannot be read"))


# ----- Arrays that should be equal -----


@dataclass(frozen=True)
class ArrayPair:
    """Two arrays that should be equal, and their name in a message."""

    name: Message
    actual: NumericArray
    expected: NumericArray
    slack: NumericArray | float = 0.0
    """How far they may differ beyond rounding; infinite for an element that is not compared."""

    @cached_property
    def is_compared(self) -> NumericArray:
        """Which elements are compared."""
        slack, number = self.slack, ~np.isnan(self.expected)
        if not isinstance(slack, float):
            slack = np.broadcast_to(slack, self.expected.shape)
        return np.asarray(number & (slack != np.inf))


@dataclass(frozen=True)
class Scale:
    """The number and the size of a run's numbers, which determine rounding."""

    terms: int
    """The number of elements in the leaves and the output: no sum is much longer."""
    size: float
    """The largest entry of the cotangent, which scales everything in a backward pass."""
    may_cancel: bool = True
    """Whether terms of that size may have cancelled; False if the slack includes their effect."""

    @classmethod
    def of(cls, run: Run) -> Scale:
        """Return the scale of a gradient run that did not fail."""
        leaves = sum(math.prod(leaf.shape) for leaf in run.leaves.values())
        output = math.prod(run.output.shape) if run.output else 0
        size = largest(run.cotangent.numpy()) if run.cotangent else 0.0
        return cls(leaves + output, max(size, 1.0))


def compare(
    pairs: Iterable[ArrayPair], reference: Message, scale: Scale, eps: float = 0.0
) -> Verdict:
    """Alarm at the first pair that differs; the deviation is the largest of all pairs.

    `reference` says where the expected numbers come from ("PyTorch gives"); `eps` is the precision
    of the computation, if that is coarser than the pair's own dtypes. NaN equals nothing; elements
    whose expected value is NaN are not compared. Declined if none is compared.
    """
    alarm: Message | None = None
    compared, deviations, why_not = 0, [0.0], message("there is nothing to compare")
    for pair in pairs:
        if pair.actual.shape != pair.expected.shape:
            return Alarm(
                message(
                    "{array} is {actual}, {reference} {expected}",
                    array=pair.name,
                    actual=pair.actual.shape,
                    reference=reference,
                    expected=pair.expected.shape,
                )
            )
        wrong, deviation = _differing(pair, scale, max(eps, resolution(pair.actual, pair.expected)))
        compared += int(pair.is_compared.sum())
        if pair.expected.size and not compared:
            why_not = ONLY_NAN if np.isnan(pair.expected).all() else ONLY_KINKS
        deviations.append(deviation)
        if wrong.any() and not alarm:
            alarm = _describe(pair, wrong, reference)
    if alarm:
        return Alarm(alarm, max(deviations))
    if not compared:
        return Declined(why_not)
    return Silent(compared, max(deviations))


ONLY_NAN = message("every expected value is NaN")
ONLY_KINKS = message("every element is at a kink, where there is no single slope")


def compare_in(run: Run, pairs: Iterable[ArrayPair], reference: Message) -> Verdict:
    """Compare arrays of a run on its scale, in the precision of its output."""
    eps = resolution(run.output.numpy()) if run.output else 0.0
    return compare(pairs, reference, Scale.of(run), eps)


def _differing(pair: ArrayPair, scale: Scale, eps: float) -> tuple[NumericArray, float]:
    """Return where the pair differs by more than rounding and slack, and its relative deviation."""
    actual, expected = widened(pair.actual), widened(pair.expected)
    if (actual == expected).all():
        return np.zeros(expected.shape, bool), 0.0
    height, relative = largest(expected), rounding(scale.terms, eps)
    looked_at = pair.is_compared
    slack = np.where(looked_at, pair.slack, 0.0)
    cancelled = scale.size if scale.may_cancel else 0.0
    wrong = looked_at & wrong_entries(actual, expected, relative, scale=cancelled, slack=slack)
    with np.errstate(invalid="ignore"):
        error = np.where(actual == expected, 0.0, np.abs(actual - expected))
    error = np.where(np.isnan(error), np.inf, error)[looked_at]
    # If everything expected may be rounding, it does not determine a scale.
    accepted = relative * max(height, cancelled) + slack.max(initial=0.0)
    size = height if height > accepted else scale.size
    return wrong, float(error.max(initial=0.0) / size)


def _describe(pair: ArrayPair, wrong: NumericArray, reference: Message) -> Message:
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = f"[{', '.join(map(str, first))}]" if first else ""
    actual, expected = as_distinct(pair.actual[first], pair.expected[first])
    difference = message(
        "{array} is {actual}, {reference} {expected}",
        array=message("{array}{index}", array=pair.name, index=at),
        actual=actual,
        reference=reference,
        expected=expected,
    )
    if wrong.size == 1:
        return difference
    return message(
        "{difference} ({count} of {size} are wrong)",
        difference=difference,
        count=int(wrong.sum()),
        size=wrong.size,
    )


def as_distinct(actual: float, expected: float) -> tuple[str, str]:
    """Format two numbers with enough digits, at least six, to tell them apart."""
    for digits in (6, 9, 12, 17):
        texts = f"{actual:.{digits}g}", f"{expected:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def check_shapes(run: Run) -> Alarm | None:
    """Return an alarm about the first gradient whose shape is not that of its leaf."""
    for name, gradient in run.gradients.items():
        if gradient is not None and gradient.shape != run.leaves[name].shape:
            return Alarm(
                message(
                    "{gradient} has shape {actual}, but {leaf} has shape {expected}",
                    gradient=gradient_name(name),
                    leaf=leaf_name(name),
                    actual=gradient.shape,
                    expected=run.leaves[name].shape,
                )
            )
    return None


def compare_gradients(
    run: Run,
    others: Mapping[str, Array | None],
    reference: Message,
    slack: Mapping[str, NumericArray],
) -> Verdict:
    """Compare a run's gradients with those of another source, leaf by leaf.

    `slack` is the measured slack of each leaf. A missing gradient equals a gradient of zeros.
    """
    pairs = []
    for name, other in others.items():
        gradient = run.gradients.get(name)
        zeros = np.zeros(run.leaves[name].shape)
        actual = zeros if gradient is None else gradient.numpy()
        expected = zeros if other is None else other.numpy()
        pairs.append(ArrayPair(gradient_name(name), actual, expected, slack.get(name, 0.0)))
    return compare_in(run, pairs, reference)


def check_log(run: Run, change: Callable[[str, int, Array, str, Array], Message | None]) -> Verdict:
    """Alarm at the first logged value that differs from the entry's previous one.

    `change` gets the entry, the step and the value, then the name and the value of what it is
    compared with: the entry's previous value or, for the gradient of a leaf, the leaf.
    """
    previous: dict[str, Array] = {}
    compared = 0
    for step, snapshot in enumerate(run.logged):
        for name, array in snapshot.items():
            leaves, other = run.leaf_log[step] if step < len(run.leaf_log) else {}, name
            if name.endswith(GRAD) and leaves.get(name) is array:
                other = name.removesuffix(GRAD)
                previous[name] = leaves[other]
            if name in previous:
                if problem := change(name, step, array, other, previous[name]):
                    return Alarm(problem)
                compared += 1
            previous[name] = array
    if not previous:
        return Alarm(message("the log is empty"))
    return Silent(compared) if compared else Declined(message("no entry is logged twice"))


def compare_with_library(observation: Observation, diagnostic: str, reference: Message) -> Verdict:
    """Compare the run's gradients with those of the library that has the diagnostic's name.

    The measurement of that name is the slack: rounding and, at kinks, the libraries' choices.
    """
    answer = observation.independent[diagnostic]
    assert not isinstance(answer, Skipped)
    measured = observation.run.measured[diagnostic].values
    slack = {name: array.numpy() for name, array in measured.items()}
    run, own = observation.run, {leaf.name for leaf in observation.probe.leaves}
    theirs = {
        name: gradient
        for name, gradient in answer.gradients.items()
        if name in own or (name in run.leaves and _is_same(run.leaves[name], answer.leaves[name]))
    }
    return compare_gradients(run, theirs, reference, slack)


def _is_same(leaf: Array, other: Array) -> bool:
    """Whether a leaf that a probe creates holds the same numbers in another library."""
    return agree(leaf.numpy(), other.numpy())
