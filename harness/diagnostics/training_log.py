"""`training-log`: contradictions within the log of one training run, without a reference.

Entries are known by name: `loss` and `validation_loss` are losses per sample, and never negative;
`chance_loss` is the loss of guessing; `grad_norm` is the norm of all gradients together, and
`grad_norm_PART` that of some; `clipped_norm` is the norm after clipping to `max_norm`. Names that
end in `_error` are relative errors of an identity. Other arrays with axes are parameters and state,
all of which training changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from harness.core.message import Message, message
from harness.core.run import Array, NumericArray
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation

LOSSES = ("loss", "validation_loss")

OFF = 1e-4
"""More than rounding explains, even in float32; bugs cause much larger errors."""

DIVERGED = 2.0
"""A loss diverges if it ends above this multiple of its start; noise may raise it a little."""

APART = 3.0
"""Before training, training and validation loss estimate the same number, up to sampling."""

ABOVE_CHANCE = 2.0
"""Initial predictions should be uninformed, and so cost about the loss of guessing."""

EXPLODED = 1e3
"""The multiple of its first norm that a gradient or a parameter may reach."""

UNEVEN = 1e-4
"""The shortest of several parts' gradients at the start, relative to the longest."""

Series = Sequence[tuple[int, NumericArray]]
"""The steps at which an entry was logged, and its values."""

SeriesByName = Mapping[str, Series]


def check(observation: Observation) -> Verdict:
    """Alarm at the first rule that the log breaks."""
    log = read_log(observation.run.log)
    for rule in RULES:
        if violation := rule(log):
            return Alarm(violation)
    entries = sum(array.size > 0 for series in log.values() for _, array in series)
    return Silent(entries) if entries else Declined(message("the log is empty"))


def read_log(snapshots: Sequence[Mapping[str, Array]]) -> SeriesByName:
    """Return the log by name instead of by step."""
    log: dict[str, list[tuple[int, NumericArray]]] = {}
    for step, snapshot in enumerate(snapshots):
        for name, array in snapshot.items():
            log.setdefault(name, []).append((step, array.numpy()))
    return log


# ----- Anything -----


def not_finite(log: SeriesByName) -> Message | None:
    """A value is NaN or infinite."""
    bad = [
        (step, name)
        for name, series in log.items()
        for step, array in series
        if not np.isfinite(array).all()
    ]
    if not bad:
        return None
    step, name = min(bad)
    return message("{entry} is not finite at step {step}", entry=name, step=step)


def another_kind(log: SeriesByName) -> Message | None:
    """An entry changes its shape or dtype."""
    for name, series in log.items():
        for (_, before), (step, after) in pairwise(series):
            if before.shape != after.shape:
                return message(
                    "{entry} goes from shape {before} to {after} at step {step}",
                    entry=name,
                    before=before.shape,
                    after=after.shape,
                    step=step,
                )
            if before.dtype != after.dtype:
                return message(
                    "{entry} goes from {before} to {after} at step {step}",
                    entry=name,
                    before=before.dtype,
                    after=after.dtype,
                    step=step,
                )
    return None


def broken_identity(log: SeriesByName) -> Message | None:
    """An entry that ends in `_error` is not 0 up to rounding."""
    for name, series in log.items():
        for step, array in series:
            error = float(np.abs(array).max(initial=0.0))
            if name.endswith("_error") and error > OFF:
                return message(
                    "{entry} is {value} at step {step}, but should be 0",
                    entry=name,
                    value=f"{error:.3g}",
                    step=step,
                )
    return None


# ----- The loss -----


def loss_is_not_a_number(log: SeriesByName) -> Message | None:
    """A loss is not a single number: something was broadcast or not reduced."""
    for name in LOSSES:
        for step, array in log.get(name, ()):
            if array.size != 1:
                return message(
                    "{entry} has shape {shape} at step {step}",
                    entry=name,
                    shape=array.shape,
                    step=step,
                )
    return None


def negative_loss(log: SeriesByName) -> Message | None:
    """A loss is negative, although squares, distances and negative log-probabilities are not."""
    for name in LOSSES:
        for step, loss in _numbers(log, name):
            if loss < 0:
                return message(
                    "{entry} is {value} at step {step}", entry=name, value=f"{loss:.3g}", step=step
                )
    return None


def flat_loss(log: SeriesByName) -> Message | None:
    """A loss that is the same at every step: nothing that it depends on changes."""
    losses = [loss for _, loss in _numbers(log, "loss")]
    if len(losses) > 2 and len(set(losses)) == 1 and losses[0] != 0:
        return message(
            "the loss is {loss} at each of {count} steps",
            loss=f"{losses[0]:.6g}",
            count=len(losses),
        )
    return None


def diverging_loss(log: SeriesByName) -> Message | None:
    """A loss that ends far above its start."""
    losses = _numbers(log, "loss")
    if len(losses) > 1 and losses[-1][1] > DIVERGED * losses[0][1]:
        first, last = (f"{loss:.3g}" for _, loss in (losses[0], losses[-1]))
        return message("the loss goes from {before} to {after}", before=first, after=last)
    return None


def far_from_chance(log: SeriesByName) -> Message | None:
    """A first loss well above that of guessing: the first predictions are confident and wrong."""
    loss, chance = _first(log, "loss"), _first(log, "chance_loss")
    if loss is None or chance is None or loss <= ABOVE_CHANCE * chance:
        return None
    return message(
        "the loss starts at {loss}, but guessing would cost {chance}",
        loss=f"{loss:.3g}",
        chance=f"{chance:.3g}",
    )


def validation_apart(log: SeriesByName) -> Message | None:
    """First training and validation losses that differ, although the model has seen neither set."""
    loss, other = _first(log, "loss"), _first(log, "validation_loss")
    if loss is None or other is None or max(loss, other) <= APART * min(loss, other):
        return None
    return message(
        "before training the loss is {loss}, the validation loss {validation_loss}",
        loss=f"{loss:.3g}",
        validation_loss=f"{other:.3g}",
    )


# ----- Parameters -----


def still_array(log: SeriesByName) -> Message | None:
    """An array that never changes while another one does."""
    moving = {name for name, series in log.items() if not _is_still(series)}
    for name, series in log.items():
        if len(series) > 2 and name not in moving and moving and _is_parameter(series):
            return message(
                "{entry} never changes in {count} steps, while {other} does",
                entry=name,
                count=len(series),
                other=min(moving),
            )
    return None


def idle_step(log: SeriesByName) -> Message | None:
    """A step that changes no parameter, although the gradient is not zero."""
    norms = dict(_numbers(log, "grad_norm"))
    arrays = [s for s in log.values() if _is_parameter(s) and not _is_still(s)]
    steps: dict[int, bool] = {}
    for series in arrays:
        for (step, before), (_, after) in pairwise(series):
            steps[step] = steps.get(step, True) and np.array_equal(before, after)
    for step, idle in sorted(steps.items()):
        if idle and norms.get(step, 0.0) > 0:
            return message(
                "step {step} changes no parameter, although the gradient has norm {norm}",
                step=step,
                norm=f"{norms[step]:.3g}",
            )
    return None


def exploding_array(log: SeriesByName) -> Message | None:
    """A parameter or state that becomes far larger than at first, and than 1."""
    for name, series in log.items():
        if not _is_parameter(series):
            continue
        first = max(1.0, float(np.linalg.norm(series[0][1])))
        for step, array in series:
            norm = float(np.linalg.norm(array))
            if norm > EXPLODED * first:
                return message(
                    "{entry} has norm {norm} at step {step}, but {first} at first",
                    entry=name,
                    norm=f"{norm:.3g}",
                    step=step,
                    first=f"{first:.3g}",
                )
    return None


# ----- Gradients -----


def vanished_gradient(log: SeriesByName) -> Message | None:
    """A gradient of exactly 0 while the loss is not 0."""
    losses = dict(_numbers(log, "loss"))
    for name in log:
        for step, norm in _numbers(log, name) if name.startswith("grad_norm") else ():
            if norm == 0 and losses.get(step, 0.0) != 0:
                return message(
                    "{entry} is 0 at step {step}, although the loss is {loss}",
                    entry=name,
                    step=step,
                    loss=f"{losses[step]:.3g}",
                )
    return None


def exploding_gradient(log: SeriesByName) -> Message | None:
    """A gradient that becomes far longer than at first."""
    norms = _numbers(log, "grad_norm")
    for step, norm in norms:
        if norm > EXPLODED * norms[0][1] > 0:
            return message(
                "{entry} goes from {before} to {after} at step {step}",
                entry="grad_norm",
                before=f"{norms[0][1]:.3g}",
                after=f"{norm:.3g}",
                step=step,
            )
    return None


def uneven_gradients(log: SeriesByName) -> Message | None:
    """Gradients that vanish, or grow, from the last layer to the first."""
    norms = {name: _first(log, name) for name in log if name.startswith("grad_norm_")}
    parts = {name: norm for name, norm in norms.items() if norm is not None}
    if not parts:
        return None
    short, long = min(parts, key=parts.__getitem__), max(parts, key=parts.__getitem__)
    if parts[short] >= UNEVEN * parts[long]:
        return None
    return message(
        "at the start {short} is {shortest}, and {long} is {longest}",
        short=short,
        shortest=f"{parts[short]:.3g}",
        long=long,
        longest=f"{parts[long]:.3g}",
    )


def wrong_clipping(log: SeriesByName) -> Message | None:
    """Clipping that does not scale longer gradients to `max_norm`, or changes shorter ones."""
    rows = (_numbers(log, name) for name in ("grad_norm", "clipped_norm", "max_norm"))
    for (step, before), (_, after), (_, limit) in zip(*rows, strict=False):
        expected = min(before, limit)
        if abs(after - expected) > 1e-3 * expected:
            return message(
                "step {step}: a gradient of {before} is clipped to {actual}, expected {expected}",
                step=step,
                before=f"{before:.3g}",
                actual=f"{after:.3g}",
                expected=f"{expected:.3g}",
            )
    return None


RULES: tuple[Callable[[SeriesByName], Message | None], ...] = (
    not_finite,
    another_kind,
    broken_identity,
    loss_is_not_a_number,
    negative_loss,
    flat_loss,
    diverging_loss,
    far_from_chance,
    validation_apart,
    still_array,
    idle_step,
    exploding_array,
    vanished_gradient,
    exploding_gradient,
    uneven_gradients,
    wrong_clipping,
)


def _numbers(log: SeriesByName, name: str) -> list[tuple[int, float]]:
    """Return the steps and values of an entry that is a single number."""
    return [(step, float(array.item())) for step, array in log.get(name, ()) if array.size == 1]


def _first(log: SeriesByName, name: str) -> float | None:
    numbers = _numbers(log, name)
    return numbers[0][1] if numbers else None


def _is_parameter(series: Series) -> bool:
    return all(array.ndim > 0 and array.dtype.kind == "f" for _, array in series)


def _is_still(series: Series) -> bool:
    return all(np.array_equal(before, after) for (_, before), (_, after) in pairwise(series))


TRAINING_LOG = Diagnostic(
    name="training-log",
    sees="training whose numbers contradict each other: stuck, exploding, idle, too confident",
    blind="training that looks healthy but converges to a wrong result",
    cost="3",
    passes=lambda _: 3,
    check=check,
    kinds=("steps",),
)
