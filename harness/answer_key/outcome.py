"""The outcome: what a break did to a probe, judged against the answer key.

Decided in this order: did it crash; does anything observable differ (shape, then dtype, then
values, then memory and state), and by more than another choice at a kink; did the patched code run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import msgspec
import numpy as np

from harness.answer_key.conditioning import (
    CONDITIONING,
    STEPS,
    entry_name,
    gradient_name,
    movements,
    slack,
)
from harness.answer_key.conditioning import OUTPUT as OUTPUT_NAME
from harness.answer_key.naming import format_distinct
from harness.core.message import Kind, Message, message, verbatim
from harness.core.rounding import largest, rounding_of, wrong_entries
from harness.core.run import (
    CREATED,
    GRAD,
    Array,
    Digest,
    Failure,
    Measurement,
    MeasurementForm,
    NumericArray,
    Quantity,
    Run,
    array_name,
    leaf_name,
    own_name,
)
from harness.core.vocabulary import Outcome

Choices = Mapping[str, NumericArray]
"""The entries of gradients that are a valid choice at a kink, as booleans by leaf."""


@dataclass(frozen=True)
class Judgement:
    """An outcome with its kind and the evidence for it."""

    outcome: Outcome
    kind: str | None
    evidence: Message
    first_divergence: Message | None = None
    better_than_correct: bool = False
    """Whether the loss ends lower because of the bug; this is never a pass."""
    arrays: tuple[Array, Array] | None = None
    """The actual array and the expected one, if an array is what differs."""
    entry: str | None = None
    """The entry of the log that differs, for a probe of steps."""


OUTPUT = message(Kind.OUTPUT)

KINKS = Measurement(
    "kinks",
    "harness.answer_key.kinks:measure",
    form=MeasurementForm(
        (
            Quantity("entries", "entries", "iu"),
            Quantity("directions", "directions entries"),
            Quantity("lowest", "directions"),
            Quantity("highest", "directions"),
        ),
        may_be_empty=True,
    ),
)
"""A different choice at a kink is not a bug."""

MEASUREMENTS = (KINKS, CONDITIONING)
"""These must be measured on the unpatched engine."""


def judge(run: Run, key: Run, siblings: Sequence[Run] = ()) -> Judgement:
    """Return the outcome of `run`, given the run `key` of the same probe on the unpatched engine.

    `siblings` are the keys of the same probe under its other losses. They show the scale of its
    gradients if they vanish for this loss: a uniform loss cancels the gradient of a softmax, and
    only rounding remains.
    """
    if key.failure:
        return _judge_refusal(run, key)
    if run.failure:
        return Judgement("crash", None, _crash_evidence(run.failure.sentence, run, key))
    if not run.reached:
        return Judgement("not-reached", None, NEVER_RAN)
    choices = _valid_choices(run, key)
    differences = _differences(run, key, siblings, choices)
    if not differences:
        chosen = _differences(run, key, siblings) if choices else []
        if not chosen:
            return Judgement("disguised-correct", None, _why_correct(run, key, siblings))
        choice = message(Kind.AT_KINK, difference=chosen[0].evidence)
        return Judgement("convention", None, choice, chosen[0].where)
    first = differences[0]
    return Judgement(
        "silent-corruption",
        first.kind,
        _with_ending(first.evidence, run, key),
        first.where,
        _is_better(run, key),
        first.arrays,
        first.entry,
    )


NEVER_RAN = message("the patched code never ran in this probe")
LOG_IS_CORRECT = message(Kind.RIGHT_LOG)
IS_CORRECT = message(Kind.RIGHT)
IS_ROUNDING = message(Kind.ROUNDING)


def _why_correct(run: Run, key: Run, siblings: Sequence[Run]) -> Message:
    """Return the evidence for a run that does not differ, and how much was not compared."""
    correct = LOG_IS_CORRECT if run.log else IS_CORRECT
    if movements(key):
        strict = msgspec.structs.replace(key, measured={})
        if _differences(run, strict, siblings):
            correct = IS_ROUNDING
    if not run.not_compared:
        return correct
    if run.not_compared == 1:
        return message(Kind.ONE_NOT_COMPARED, correct=correct)
    return message(Kind.NOT_COMPARED, correct=correct, count=run.not_compared)


# ----- If the clean engine refuses the probe -----

REFUSED, REFUSED_ELSEWHERE = "refused", "refused-elsewhere"
"""The kinds of a right result that is an exception: see `_judge_refusal`."""


def _judge_refusal(run: Run, key: Run) -> Judgement:
    """Return the outcome if the clean engine refuses this probe, that is, raises an exception.

    The two exceptions are compared by type, by the part of the run (phase and step), and by place
    in the probe (line) and in the engine (file, function and statement), never by text: texts
    contain numbers.

    | the broken engine                           | outcome             | kind                |
    | ------------------------------------------- | ------------------- | ------------------- |
    | accepts the probe                           | silent-corruption   | guard-lost          |
    | fails with another type, or in another part | crash               |                     |
    | of the run                                  |                     |                     |
    | never ran the patched code                  | not-reached         |                     |
    | is wrong before it refuses the probe there  | silent-corruption   | what differs        |
    | refuses it at another place                 | disguised-correct   | refused-elsewhere   |
    | refuses it at the same place                | disguised-correct   | refused             |

    The first row that fits applies. No check notices such a crash: a developer who expects a
    refusal cannot know which one is right.
    """
    assert key.failure is not None
    expected = key.failure.sentence
    if run.failure is None:
        evidence = message(Kind.ACCEPTED, refusal=expected)
        return Judgement("silent-corruption", "guard-lost", evidence)
    actual = run.failure.sentence
    if _part(run.failure) != _part(key.failure):
        evidence = message(Kind.FAILED_OTHERWISE, failure=actual, refusal=expected)
        return Judgement("crash", None, _crash_evidence(evidence, run, key))
    if not run.reached:
        return Judgement("not-reached", None, NEVER_RAN)
    if differences := _differences(run, key):
        first = differences[0]
        evidence = message(Kind.REFUSED_AFTER, difference=first.evidence, refusal=actual)
        arrays, entry = first.arrays, first.entry
        return Judgement(
            "silent-corruption", first.kind, evidence, first.where, arrays=arrays, entry=entry
        )
    if _place(run.failure) != _place(key.failure):
        evidence = message(Kind.REFUSED_ELSEWHERE, failure=actual, refusal=expected)
        return Judgement("disguised-correct", REFUSED_ELSEWHERE, evidence)
    evidence = message(Kind.REFUSED, refusal=actual)
    return Judgement("disguised-correct", REFUSED, evidence)


def _part(failure: Failure) -> tuple[str, str, int | None]:
    """Return the type of an exception, and the part of the run that raised it."""
    return failure.type, failure.phase, failure.step


def _place(failure: Failure) -> tuple[str, ...]:
    """Return where an exception was raised: the line of the probe, and the engine's statement."""
    origin = failure.origin
    engine = (origin.file, origin.function, origin.statement) if origin else ()
    return failure.where, *engine


def _crash_evidence(failure: Message, run: Run, key: Run) -> Message:
    """Return the failure, and what had silently gone wrong before it."""
    differences = _differences(run, key)
    if not differences:
        return failure
    return message(Kind.FAILED_AFTER, failure=failure, difference=differences[0].evidence)


def _valid_choices(run: Run, key: Run) -> Choices:
    """Return the choices; none if the clean engine's run is not at a kink."""
    if KINKS.name not in key.measured or not key.measured[KINKS.name].values:
        return {}
    from harness.answer_key.kinks import valid_choices  # few probes have kinks

    return valid_choices(run.gradients, key)


KINDS = ("shape", "dtype", "non-finite", "value", "mutated-input", "aliased", "state")
"""What may differ, most telling first."""


@dataclass(frozen=True)
class _Difference:
    kind: str
    evidence: Message
    where: Message | None = None
    arrays: tuple[Array, Array] | None = None
    """Actual and expected."""
    entry: str | None = None
    """As in `Judgement`."""


def _differences(
    run: Run, key: Run, siblings: Sequence[Run] = (), choices: Choices | None = None
) -> list[_Difference]:
    """Return all differences: the most telling first, then in the order of computation.

    The leaves that the probe creates, and those of a probe of steps, are compared if all else is
    equal.
    """
    differences = [
        *_unlike_output(run, key),
        *_unlike_gradients(run, key, siblings, choices or {}),
        *_unlike_log(run, key),
        *_unlike_effects(run, key),
    ] or [*_unlike_leaves(run, key, choices or {})]
    return sorted(differences, key=lambda difference: KINDS.index(difference.kind))


def _unlike_output(run: Run, key: Run) -> Iterator[_Difference]:
    if run.output and key.output:
        yield from _compare(OUTPUT, run.output, key.output, moves=slack(key, OUTPUT_NAME))


def _unlike_gradients(
    run: Run, key: Run, siblings: Sequence[Run], choices: Choices
) -> Iterator[_Difference]:
    for name, expected in key.gradients.items():
        if name not in run.gradients or CREATED.fullmatch(name):
            continue
        actual = run.gradients[name]
        if actual and expected:
            others = [sibling.gradients.get(name) for sibling in siblings]
            scale = max((largest(other.numpy()) for other in others if other), default=0.0)
            gradient = gradient_name(name)
            moves = slack(key, gradient)
            yield from _compare(
                verbatim(gradient), actual, expected, scale, choices.get(name), moves=moves
            )
        elif expected:
            missing = message(Kind.NO_GRADIENT, leaf=name)
            yield _Difference("value", missing, verbatim(name))
        elif actual:
            extra = message(Kind.EXTRA_GRADIENT, leaf=name)
            yield _Difference("value", extra, verbatim(name))


def _unlike_leaves(run: Run, key: Run, choices: Choices) -> Iterator[_Difference]:
    """Yield the differences of created leaves, and of all leaves at the first step with any."""
    scale = 0.0
    if not run.failure:  # a backward pass that failed has left some leaves out
        own = _created_of(key)
        moves = {name: slack(key, name) for name in own}
        yield from _compare_leaves(_created_of(run), own, choices, _scale_of(own), moves)
    steps = list(zip(_snapshots(run), _snapshots(key), strict=False))
    if key.log and len(run.log) != len(key.log):  # the last snapshots are of different steps
        steps = steps[: min(len(run.log), len(key.log))]
    for step, (actual, expected) in enumerate(steps):
        found, scale = False, max(scale, _scale_of(expected))
        moves = {name: slack(key, entry_name(step, name)) for name in expected}
        for difference in _compare_leaves(actual, expected, {}, scale, moves, step + 1):
            found = True
            evidence = message(Kind.AFTER_STEP, step=step, difference=difference.evidence)
            yield replace(difference, evidence=evidence if key.log else difference.evidence)
        if found:
            return


LeafRecord = Mapping[str, Array | Digest]
"""Leaves that have a gradient, and the gradients."""


def _snapshots(run: Run) -> list[LeafRecord]:
    """Return what was recorded of the leaves at each step."""
    pairs = zip_longest(run.leaf_log, run.large)
    return [dict[str, Array | Digest](small or {}) | (large or {}) for small, large in pairs]


def _created_of(run: Run) -> LeafRecord:
    """Return the created leaves of a probe that is not one of steps."""
    arrays: dict[str, Array | Digest] = {}
    for name, gradient in run.gradients.items():
        if gradient and CREATED.fullmatch(name):
            arrays |= {name: run.leaves[name], f"{name}{GRAD}": gradient}
    return arrays


def _compare_leaves(
    actual: LeafRecord,
    expected: LeafRecord,
    choices: Choices,
    scale: float,
    moves: Mapping[str, float],
    passes: int = 1,
) -> Iterator[_Difference]:
    """Yield the differences of leaves and gradients; a missing gradient equals one of zeros.

    A gradient may be nothing but rounding, such as that of a bias before a normalisation, or after
    a training has converged. So all are compared on the `scale` of the largest so far.
    """
    for name in dict.fromkeys((*expected, *actual)):
        one, other, title = actual.get(name), expected.get(name), array_name(name)
        leaf = name.removesuffix(GRAD)
        if one is None or other is None:
            is_rounding = math.isinf(moves.get(name, 0.0))
            if name.endswith(GRAD) and not (is_rounding or _is_zero(one or other)):
                sentence = (
                    message(Kind.NO_GRADIENT, leaf=leaf_name(leaf))
                    if one is None
                    else message(Kind.EXTRA_GRADIENT, leaf=leaf_name(leaf))
                )
                yield _Difference("value", sentence, leaf_name(leaf))
        elif isinstance(one, Array) and isinstance(other, Array):
            size = scale if name.endswith(GRAD) else 0.0
            error = moves.get(name, 0.0)
            yield from _compare(title, one, other, size, choices.get(leaf), passes, error)
        elif isinstance(one, Array) or isinstance(other, Array):
            yield _Difference("shape", message(Kind.SIZE, array=title), title)
        elif not _agree(one, other, passes):
            yield _Difference("value", message(Kind.DIGEST, array=title), title)


def _agree(one: Digest, other: Digest, passes: int) -> bool:
    """Whether the numbers are the same, up to rounding."""
    rounding = passes * max(one.rounding, other.rounding)
    return one.checksum == other.checksum and (
        one == other or abs(one.projection - other.projection) <= rounding
    )


def _scale_of(created: LeafRecord) -> float:
    """Return the largest entry of the gradients."""
    gradients = [array for name, array in created.items() if name.endswith(GRAD)]
    return max((largest(g.numpy()) for g in gradients if isinstance(g, Array)), default=0.0)


def _is_zero(array: Array | Digest | None) -> bool:
    if isinstance(array, Array):
        return not array.numpy().any()
    return array is None or array.projection == array.rounding == 0.0


def _unlike_log(run: Run, key: Run) -> Iterator[_Difference]:
    """Yield all differences at the first step that has any."""
    for step, (actual, expected) in enumerate(zip(run.log, key.log, strict=False)):
        differences = [
            (name, difference)
            for name in expected
            if name in actual
            for difference in _compare(
                verbatim(name),
                actual[name],
                expected[name],
                passes=step + 1,
                moves=slack(key, entry_name(step, name)),
            )
        ]
        for name, difference in differences:
            yield _Difference(
                "state" if "." in name else difference.kind,
                message(Kind.AFTER_STEP, step=step, difference=difference.evidence),
                message("step {step}: {entry}", step=step, entry=name),
                arrays=difference.arrays,
                entry=name,
            )
        if missing := expected.keys() - actual.keys():
            name = min(missing)
            evidence = message(
                "after step {step}, {entry} is not in the log", step=step, entry=name
            )
            where = message("step {number}", number=step)
            yield _Difference("state" if "." in name else "value", evidence, where)
        if differences or missing:
            return
    if len(run.log) != len(key.log) and not (run.failure or slack(key, STEPS)):
        evidence = message(Kind.STEPS, actual=len(run.log), expected=len(key.log))
        yield _Difference("value", evidence)


def _unlike_effects(run: Run, key: Run) -> Iterator[_Difference]:
    """Yield what the run changes, shares or draws, and the correct engine does not."""
    for name in run.mutated.keys() - key.mutated.keys():
        evidence = message(Kind.MUTATED, name=own_name(name))
        yield _Difference("mutated-input", evidence, own_name(name))
    for name, other in run.shared:
        if (name, other) not in key.shared:
            evidence = message(
                "{one} and {other} share memory", one=own_name(name), other=own_name(other)
            )
            yield _Difference("aliased", evidence, own_name(name))
    if run.generator_moved and not key.generator_moved:
        yield _Difference("state", message(Kind.GENERATOR))


def _compare(
    name: Message,
    actual: Array,
    expected: Array,
    scale: float = 0.0,
    valid: NumericArray | None = None,
    passes: int = 1,
    moves: float = 0.0,
) -> Iterator[_Difference]:
    """Yield the first way in which two arrays differ, if any: shape, dtype, non-finite, value.

    `scale` is the size of the terms that may have cancelled; the entries in `valid` may differ, and
    all entries by what the array `moves` on the correct engine. The numbers went through that many
    forward and backward `passes`, one after the other.
    """
    arrays = actual, expected
    if math.isinf(moves):
        return
    if actual.shape != expected.shape:
        evidence = message(Kind.SHAPE, array=name, actual=actual.shape, expected=expected.shape)
        yield _Difference("shape", evidence, name, arrays=arrays)
    elif actual.dtype != expected.dtype:
        evidence = message(
            Kind.ARRAY, array=name, actual=np.dtype(actual.dtype), expected=np.dtype(expected.dtype)
        )
        yield _Difference("dtype", evidence, name, arrays=arrays)
    elif actual.data != expected.data:  # most are equal bit for bit, which is quick to check
        values = actual.numpy(), expected.numpy()
        relative = rounding_of(*values, passes=passes)
        wrong = wrong_entries(*values, relative, scale=scale, slack=moves)
        if valid is not None:
            wrong &= ~valid
        if wrong.any():
            spread = np.isfinite(values[1]) & ~np.isfinite(values[0])
            kind = "non-finite" if spread.any() else "value"
            yield _Difference(kind, _value_evidence(name, *values, wrong), name, arrays=arrays)


def _value_evidence(
    name: Message, actual: NumericArray, expected: NumericArray, wrong: NumericArray
) -> Message:
    """Describe both values: all entries of a small array, else the first that differs."""
    if expected.size <= 4:
        texts = format_distinct(actual, expected)
        return message(Kind.ARRAY, array=name, actual=texts[0], expected=texts[1])
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    texts = format_distinct(actual[first], expected[first], digits=6)
    return message(
        Kind.ENTRIES,
        array=message("{array}[{index}]", array=name, index=", ".join(map(str, first))),
        actual=texts[0],
        expected=texts[1],
        count=int(wrong.sum()),
        size=expected.size,
    )


def _different_endings(run: Run, key: Run) -> tuple[float, float] | None:
    """Return the last losses of two logs, if both log a number and three digits of it differ."""
    if not (run.log and key.log and "loss" in run.log[-1] and "loss" in key.log[-1]):
        return None
    losses = run.log[-1]["loss"].numpy(), key.log[-1]["loss"].numpy()
    if any(loss.size != 1 for loss in losses):
        return None
    actual, expected = (loss.item() for loss in losses)
    if abs(actual - expected) <= slack(key, entry_name(len(key.log) - 1, "loss")):
        return None
    return None if _digits(actual) == _digits(expected) else (actual, expected)


def _is_better(run: Run, key: Run) -> bool:
    """Whether the loss ends lower."""
    losses = _different_endings(run, key)
    return losses is not None and losses[0] < losses[1]


def _with_ending(difference: Message, run: Run, key: Run) -> Message:
    """Return the difference, and how the losses end if they end differently."""
    losses = _different_endings(run, key)
    if losses is None:
        return difference
    actual, expected = map(_digits, losses)
    if losses[0] < losses[1]:
        return message(Kind.ENDS_LOWER, difference=difference, actual=actual, expected=expected)
    return message(Kind.ENDS, difference=difference, actual=actual, expected=expected)


def _digits(loss: float) -> str:
    return f"{loss:.3g}"
