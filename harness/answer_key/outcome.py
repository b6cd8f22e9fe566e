"""The outcome: what a break did to a probe, judged against the answer key.

Decided in this order: did it crash; does anything observable differ (shape, then dtype, then
values, then memory and state), and by more than another choice at a kink; did the patched code run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

import msgspec
import numpy as np

from harness.answer_key.naming import format_distinct
from harness.answer_key.tolerances import (
    CONDITIONING,
    KINKS,
    OUTPUT,
    STEPS,
    entry_name,
    gradient_name,
    movements,
    slack,
    valid_choices,
)
from harness.core.message import Kind, Message, message, verbatim
from harness.core.rounding import largest, rounding_of, wrong_entries
from harness.core.run import (
    CREATED,
    GRAD,
    Array,
    Digest,
    Failure,
    NumericArray,
    Run,
    array_name,
    leaf_name,
    own_name,
)
from harness.core.vocabulary import Outcome

ValidChoices = Mapping[str, NumericArray]
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


MEASUREMENTS = (KINKS, CONDITIONING)
"""These must be measured on the unpatched engine."""


def judge(run: Run, clean: Run, siblings: Sequence[Run] = ()) -> Judgement:
    """Return the outcome of `run`, given the run on the `clean` engine, which is the answer key.

    `siblings` are the clean runs of the probe under its other losses. They show the scale of its
    gradients if they vanish for this loss: a uniform loss cancels the gradient of a softmax, and
    only rounding remains.
    """
    if clean.failure:
        return _judge_refusal(run, clean)
    if run.failure:
        return Judgement("crash", None, _crash_evidence(run.failure.sentence, run, clean))
    if not run.reached:
        return Judgement("not-reached", None, NEVER_RAN)
    choices = valid_choices(run.gradients, clean)
    differences = _differences(run, clean, siblings, choices)
    if not differences:
        chosen = _differences(run, clean, siblings) if choices else []
        if not chosen:
            return Judgement("disguised-correct", None, _why_correct(run, clean, siblings))
        choice = message(Kind.AT_KINK, difference=chosen[0].evidence)
        return Judgement("convention", None, choice, chosen[0].first_divergence)
    return _with_ending(differences[0], run, clean)


NEVER_RAN = message("the patched code never ran in this probe")
LOG_IS_CORRECT = message(Kind.RIGHT_LOG)
IS_CORRECT = message(Kind.RIGHT)
IS_ROUNDING = message(Kind.ROUNDING)


def _why_correct(run: Run, clean: Run, siblings: Sequence[Run]) -> Message:
    """Return the evidence for a run that does not differ, and how much was not compared."""
    correct = LOG_IS_CORRECT if run.log else IS_CORRECT
    if movements(clean):
        strict = msgspec.structs.replace(clean, measured={})
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


def _judge_refusal(run: Run, clean: Run) -> Judgement:
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
    assert clean.failure is not None
    expected = clean.failure.sentence
    if run.failure is None:
        evidence = message(Kind.ACCEPTED, refusal=expected)
        return _corruption("guard-lost", evidence)
    actual = run.failure.sentence
    if _part(run.failure) != _part(clean.failure):
        evidence = message(Kind.FAILED_OTHERWISE, failure=actual, refusal=expected)
        return Judgement("crash", None, _crash_evidence(evidence, run, clean))
    if not run.reached:
        return Judgement("not-reached", None, NEVER_RAN)
    if differences := _differences(run, clean):
        evidence = message(Kind.REFUSED_AFTER, difference=differences[0].evidence, refusal=actual)
        return replace(differences[0], evidence=evidence)
    if _place(run.failure) != _place(clean.failure):
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


def _crash_evidence(failure: Message, run: Run, clean: Run) -> Message:
    """Return the failure, and what had silently gone wrong before it."""
    differences = _differences(run, clean)
    if not differences:
        return failure
    return message(Kind.FAILED_AFTER, failure=failure, difference=differences[0].evidence)


KINDS = ("shape", "dtype", "non-finite", "value", "mutated-input", "aliased", "state")
"""What may differ, most telling first."""


_corruption = partial(Judgement, "silent-corruption")
"""What each difference is judged to be; its evidence and its place follow its kind."""


def _differences(
    run: Run, clean: Run, siblings: Sequence[Run] = (), choices: ValidChoices | None = None
) -> list[Judgement]:
    """Return all differences: the most telling first, then in the order of computation.

    The leaves that the probe creates, and those of a probe of steps, are compared if all else is
    equal.
    """
    differences = [
        *_unlike_results(run, clean, siblings, choices or {}),
        *_unlike_log(run, clean),
        *_unlike_effects(run, clean),
    ] or [*_unlike_leaves(run, clean, choices or {})]
    return sorted(differences, key=lambda difference: KINDS.index(str(difference.kind)))


def _unlike_results(
    run: Run, clean: Run, siblings: Sequence[Run], choices: ValidChoices
) -> Iterator[Judgement]:
    if run.output and clean.output:
        moves = slack(clean, OUTPUT)
        yield from _compare(message(Kind.OUTPUT), run.output, clean.output, moves=moves)
    for name, expected in clean.gradients.items():
        if name not in run.gradients or CREATED.fullmatch(name):
            continue
        actual = run.gradients[name]
        if actual and expected:
            others = [sibling.gradients.get(name) for sibling in siblings]
            scale = max((largest(other.numpy()) for other in others if other), default=0.0)
            gradient = gradient_name(name)
            moves = slack(clean, gradient)
            yield from _compare(
                verbatim(gradient), actual, expected, scale, choices.get(name), moves=moves
            )
        elif expected:
            missing = message(Kind.NO_GRADIENT, leaf=name)
            yield _corruption("value", missing, verbatim(name))
        elif actual:
            extra = message(Kind.EXTRA_GRADIENT, leaf=name)
            yield _corruption("value", extra, verbatim(name))


def _unlike_leaves(run: Run, clean: Run, choices: ValidChoices) -> Iterator[Judgement]:
    """Yield the differences of created leaves, and of all leaves at the first step with any."""
    scale = 0.0
    if not run.failure:  # a backward pass that failed has left some leaves out
        own = _created_of(clean)
        moves = {name: slack(clean, name) for name in own}
        yield from _compare_leaves(_created_of(run), own, choices, _scale_of(own), moves)
    steps = list(zip(_snapshots(run), _snapshots(clean), strict=False))
    if clean.log and len(run.log) != len(clean.log):  # the last snapshots are of different steps
        steps = steps[: min(len(run.log), len(clean.log))]
    for step, (actual, expected) in enumerate(steps):
        found, scale = False, max(scale, _scale_of(expected))
        moves = {name: slack(clean, entry_name(step, name)) for name in expected}
        for difference in _compare_leaves(actual, expected, {}, scale, moves, step + 1):
            found = True
            evidence = message(Kind.AFTER_STEP, step=step, difference=difference.evidence)
            yield replace(difference, evidence=evidence if clean.log else difference.evidence)
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
    choices: ValidChoices,
    scale: float,
    moves: Mapping[str, float],
    passes: int = 1,
) -> Iterator[Judgement]:
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
                yield _corruption("value", sentence, leaf_name(leaf))
        elif isinstance(one, Array) and isinstance(other, Array):
            size = scale if name.endswith(GRAD) else 0.0
            error = moves.get(name, 0.0)
            yield from _compare(title, one, other, size, choices.get(leaf), passes, error)
        elif isinstance(one, Array) or isinstance(other, Array):
            yield _corruption("shape", message(Kind.SIZE, array=title), title)
        elif not digests_agree(one, other, passes * max(one.rounding, other.rounding)):
            yield _corruption("value", message(Kind.DIGEST, array=title), title)


def digests_agree(one: Digest, other: Digest, rounding: float) -> bool:
    """Whether the numbers are the same, up to `rounding`."""
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


def _unlike_log(run: Run, clean: Run) -> Iterator[Judgement]:
    """Yield all differences at the first step that has any."""
    for step, (actual, expected) in enumerate(zip(run.log, clean.log, strict=False)):
        differences = [
            (name, difference)
            for name in expected
            if name in actual
            for difference in _compare(
                verbatim(name),
                actual[name],
                expected[name],
                passes=step + 1,
                moves=slack(clean, entry_name(step, name)),
            )
        ]
        for name, difference in differences:
            yield _corruption(
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
            yield _corruption("state" if "." in name else "value", evidence, where)
        if differences or missing:
            return
    if len(run.log) != len(clean.log) and not (run.failure or slack(clean, STEPS)):
        evidence = message(Kind.STEPS, actual=len(run.log), expected=len(clean.log))
        yield _corruption("value", evidence)


def _unlike_effects(run: Run, clean: Run) -> Iterator[Judgement]:
    """Yield what the run changes, shares or draws, and the correct engine does not."""
    for name in run.mutated.keys() - clean.mutated.keys():
        evidence = message(Kind.MUTATED, name=own_name(name))
        yield _corruption("mutated-input", evidence, own_name(name))
    for name, other in run.shared:
        if (name, other) not in clean.shared:
            evidence = message(
                "{one} and {other} share memory", one=own_name(name), other=own_name(other)
            )
            yield _corruption("aliased", evidence, own_name(name))
    if run.generator_moved and not clean.generator_moved:
        yield _corruption("state", message(Kind.GENERATOR))


def _compare(
    name: Message,
    actual: Array,
    expected: Array,
    scale: float = 0.0,
    valid: NumericArray | None = None,
    passes: int = 1,
    moves: float = 0.0,
) -> Iterator[Judgement]:
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
        yield _corruption("shape", evidence, name, arrays=arrays)
    elif actual.dtype != expected.dtype:
        evidence = message(
            Kind.ARRAY, array=name, actual=np.dtype(actual.dtype), expected=np.dtype(expected.dtype)
        )
        yield _corruption("dtype", evidence, name, arrays=arrays)
    elif actual.data != expected.data:  # most are equal bit for bit, which is quick to check
        values = actual.numpy(), expected.numpy()
        relative = rounding_of(*values, passes=passes)
        wrong = wrong_entries(*values, relative, scale=scale, slack=moves)
        if valid is not None:
            wrong &= ~valid
        if wrong.any():
            spread = np.isfinite(values[1]) & ~np.isfinite(values[0])
            kind = "non-finite" if spread.any() else "value"
            yield _corruption(kind, _value_evidence(name, *values, wrong), name, arrays=arrays)


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


def _different_endings(run: Run, clean: Run) -> tuple[float, float] | None:
    """Return the last losses of two logs, if both log a number and three digits of it differ."""
    if not (run.log and clean.log and "loss" in run.log[-1] and "loss" in clean.log[-1]):
        return None
    losses = run.log[-1]["loss"].numpy(), clean.log[-1]["loss"].numpy()
    if any(loss.size != 1 for loss in losses):
        return None
    actual, expected = (loss.item() for loss in losses)
    if abs(actual - expected) <= slack(clean, entry_name(len(clean.log) - 1, "loss")):
        return None
    return None if _digits(actual) == _digits(expected) else (actual, expected)


def _with_ending(difference: Judgement, run: Run, clean: Run) -> Judgement:
    """Return the difference, and how the losses end if they end differently."""
    losses = _different_endings(run, clean)
    if losses is None:
        return difference
    actual, expected = map(_digits, losses)
    first, is_better = difference.evidence, losses[0] < losses[1]
    if is_better:
        evidence = message(Kind.ENDS_LOWER, difference=first, actual=actual, expected=expected)
    else:
        evidence = message(Kind.ENDS, difference=first, actual=actual, expected=expected)
    return replace(difference, evidence=evidence, better_than_correct=is_better)


def _digits(loss: float) -> str:
    return f"{loss:.3g}"
