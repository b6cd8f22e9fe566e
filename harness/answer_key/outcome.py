"""The outcome: what a break did to a probe, judged against the answer key.

This is the only module that sees both the broken run and the clean one. Decided in this order: did
it crash; does anything observable differ (shape, then dtype, then values, then what was done to
memory and state), and is it more than another choice at a kink; did the patched code run at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.answer_key.naming import told_apart
from harness.answer_key.subgradient import is_subgradient
from harness.core.run import Array, NumericArray, Run
from harness.core.vocabulary import Outcome


@dataclass(frozen=True)
class Judgement:
    """An outcome with its kind and the sentence that proves it."""

    outcome: Outcome
    kind: str | None
    evidence: str
    first_divergence: str | None = None
    better_than_correct: bool = False
    """The loss ends lower because of the bug; never a pass."""
    arrays: tuple[Array, Array] | None = None
    """The wrong array and the correct one, where that is what differs."""


def judge(run: Run, key: Run, siblings: Sequence[Run] = ()) -> Judgement:
    """The outcome of `run`, where `key` is the same probe on the unpatched engine.

    `siblings` are the keys of the same probe under its other losses. They tell how large its
    gradients are where this loss has none: a uniform loss cancels that of a softmax, and what is
    left of it is rounding.
    """
    if key.failure:
        return _judge_refusal(run, key)
    if run.failure:
        return Judgement("crash", None, _crash_evidence(run, key))
    if not run.reached:
        return Judgement("not-reached", None, "the patched code never ran in this probe")
    differences = _differences(run, key, siblings)
    if not differences:
        right = "every step of the log" if run.log else "output and gradients"
        return Judgement("disguised-correct", None, f"the patched code ran, {right} came out right")
    first = differences[0]
    if all(each.gradient for each in differences) and is_subgradient(run.gradients, key):
        choice = f"{first.evidence}; at this kink both are valid subgradients"
        return Judgement("convention", None, choice, first.where)
    evidence = first.evidence + _ending(run, key)
    return Judgement(
        "silent-corruption", first.kind, evidence, first.where, _is_better(run, key), first.arrays
    )


def _judge_refusal(run: Run, key: Run) -> Judgement:
    """The clean engine refuses this probe; a broken one that answers has lost a guard."""
    if run.failure is None:
        return Judgement(
            "silent-corruption",
            "guard-lost",
            f"the correct engine refuses this ({key.failure}); the broken one answers",
        )
    if run.failure.type != key.failure.type if key.failure else True:
        return Judgement("crash", None, f"{run.failure}; the correct engine has {key.failure}")
    if not run.reached:
        return Judgement("not-reached", None, "the patched code never ran in this probe")
    return Judgement("disguised-correct", None, f"refused as by the correct engine: {run.failure}")


def _crash_evidence(run: Run, key: Run) -> str:
    """The failure, and what had gone wrong silently before it."""
    evidence = str(run.failure)
    differences = _differences(run, key)
    return (
        f"{evidence}. Before that, silently: {differences[0].evidence}" if differences else evidence
    )


KINDS = ("shape", "dtype", "non-finite", "value", "mutated-input", "aliased", "state")
"""What may differ, most telling first."""


@dataclass(frozen=True)
class _Difference:
    kind: str
    evidence: str
    where: str | None = None
    gradient: bool = False
    """It is a leaf's gradient whose values differ, and nothing more."""
    arrays: tuple[Array, Array] | None = None
    """Broken and correct."""


def _differences(run: Run, key: Run, siblings: Sequence[Run] = ()) -> list[_Difference]:
    """What differs: most telling first, else in the order in which it was computed."""
    found = [
        *_unlike_output(run, key),
        *_unlike_gradients(run, key, siblings),
        *_unlike_log(run, key),
        *_unlike_inputs(run, key),
        *_unlike_sharing(run, key),
        *_unlike_generator(run, key),
    ]
    return sorted(found, key=lambda difference: KINDS.index(difference.kind))


def _unlike_output(run: Run, key: Run) -> Iterator[_Difference]:
    if run.output and key.output:
        yield from _compare("the output", run.output, key.output)


def _unlike_gradients(run: Run, key: Run, siblings: Sequence[Run]) -> Iterator[_Difference]:
    for name, correct in key.gradients.items():
        broken = run.gradients.get(name)
        if broken is None and name not in run.gradients:
            continue
        if (broken is None) != (correct is None):
            mine, right = ("no gradient" if g is None else "a gradient" for g in (broken, correct))
            yield _Difference("value", f"{name} has {mine}, correct is {right}", name, True)
        elif broken and correct:
            scale = max((_size(sibling.gradients.get(name)) for sibling in siblings), default=0.0)
            for difference in _compare(f"{name}.grad", broken, correct, scale):
                yield replace(difference, gradient=difference.kind == "value")


def _unlike_log(run: Run, key: Run) -> Iterator[_Difference]:
    """All that differs at the first step at which anything does."""
    for step, (broken, correct) in enumerate(zip(run.log, key.log, strict=False)):
        found = [
            difference
            for name in correct
            if name in broken
            for difference in _compare(name, broken[name], correct[name])
        ]
        for difference in found:
            yield _Difference(
                "state" if "." in (difference.where or "") else difference.kind,
                f"after step {step}, {difference.evidence}",
                f"step {step}: {difference.where}",
                arrays=difference.arrays,
            )
        if missing := correct.keys() - broken.keys():
            logged = f"after step {step}, there is no {min(missing)} in the log"
            yield _Difference("state" if "." in min(missing) else "value", logged, f"step {step}")
        if found or missing:
            return
    if len(run.log) != len(key.log) and not run.failure:
        yield _Difference("value", f"{len(run.log)} steps were made, correct is {len(key.log)}")


def _unlike_inputs(run: Run, key: Run) -> Iterator[_Difference]:
    """Inputs that hold something else after the run, where the correct engine leaves them alone."""
    for name in run.mutated.keys() - key.mutated.keys():
        yield _Difference("mutated-input", f"{name} was changed by the run", name)


def _unlike_sharing(run: Run, key: Run) -> Iterator[_Difference]:
    """Gradients in memory that something else uses too, where the correct engine's own it."""
    for pair in run.shared:
        if pair not in key.shared:
            yield _Difference("aliased", f"{pair} share memory", pair.partition(" and ")[0])


def _unlike_generator(run: Run, key: Run) -> Iterator[_Difference]:
    if run.generator_moved and not key.generator_moved:
        yield _Difference("state", "numbers were drawn from NumPy's global generator")


def _compare(name: str, broken: Array, correct: Array, scale: float = 0.0) -> Iterator[_Difference]:
    """The first way in which two arrays differ, if any: shape, dtype, non-finite, value."""
    if broken.shape != correct.shape:
        evidence = f"{name} has shape {broken.shape}, correct is {correct.shape}"
        yield _Difference("shape", evidence, name, arrays=(broken, correct))
    elif broken.dtype != correct.dtype:
        dtypes = np.dtype(broken.dtype), np.dtype(correct.dtype)
        evidence = "{} is {}, correct is {}".format(name, *dtypes)
        yield _Difference("dtype", evidence, name, arrays=(broken, correct))
    elif broken.data != correct.data:  # most are equal to the bit, and that is soon seen
        mine, right = broken.numpy(), correct.numpy()
        where = _wrong_entries(mine, right, max(scale, _size(correct)))
        if where.any():
            spread = np.isfinite(right) & ~np.isfinite(mine)
            kind = "non-finite" if spread.any() else "value"
            evidence = _value_evidence(name, mine, right, where)
            yield _Difference(kind, evidence, name, arrays=(broken, correct))


def _size(array: Array | None) -> float:
    """The largest finite entry."""
    if array is None:
        return 0.0
    values = array.numpy()
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def _wrong_entries(mine: NumericArray, right: NumericArray, scale: float) -> NumericArray:
    """Which entries differ by more than rounding may explain in numbers of that `scale`.

    Two ways of summing the same n numbers differ by at most about n * eps of the sum of their
    absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); the
    scale stands in for those terms. NaN equals NaN, in the same places only.
    """
    if right.dtype.kind not in "fc":
        return np.asarray(mine != right)
    rounding = 16 * max(right.size, 16) * float(np.finfo(right.dtype).eps)
    near = np.isclose(mine, right, rtol=rounding, atol=rounding * scale, equal_nan=True)
    return np.asarray(~near)


def _value_evidence(
    name: str,
    mine: NumericArray,
    right: NumericArray,
    where: NumericArray,
) -> str:
    """Both values: all of them where they are few, else the first that differs."""
    if right.size <= 4:
        broken, correct = told_apart(mine, right)
        return f"{name} is {broken}, correct is {correct}"
    first = tuple(int(i) for i in np.argwhere(where)[0])
    broken, correct = told_apart(mine[first], right[first], digits=6)
    at = f"{name}[{', '.join(map(str, first))}]"
    count = f"{int(where.sum())} of {right.size} entries are wrong"
    return f"{at} is {broken}, correct is {correct} ({count})"


def _last_losses(run: Run, key: Run) -> tuple[float, float] | None:
    """The losses with which two logs end, where both keep one that is a single number."""
    if not (run.log and key.log and "loss" in run.log[-1] and "loss" in key.log[-1]):
        return None
    losses = run.log[-1]["loss"].numpy(), key.log[-1]["loss"].numpy()
    if any(loss.size != 1 for loss in losses):
        return None
    return losses[0].item(), losses[1].item()


def _is_better(run: Run, key: Run) -> bool:
    """Whether a log of three digits ends lower: a rounding error is no virtue."""
    losses = _last_losses(run, key)
    return losses is not None and losses[0] < losses[1] and _digits(losses[0]) != _digits(losses[1])


def _ending(run: Run, key: Run) -> str:
    """How the losses end, as the rest of a sentence; nothing where they end alike."""
    losses = _last_losses(run, key)
    if losses is None or _digits(losses[0]) == _digits(losses[1]):
        return ""
    comparison = "lower than the correct" if losses[0] < losses[1] else "correct is"
    return f"; the loss ends at {_digits(losses[0])}, {comparison} {_digits(losses[1])}"


def _digits(loss: float) -> str:
    return f"{loss:.3g}"
