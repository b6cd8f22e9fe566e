"""`mode`: whether a layer behaves as training and evaluation require, also after a switch.

The lab takes the layer through training, evaluation twice, evaluation of its first row alone, and
training again, all on one input, and records output, state and `training` flags each time. The
rules then hold for any layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.core.message import Message, message
from harness.core.rounding import agree, resolution, rounding
from harness.core.run import MODULE_LOG as SCENARIO
from harness.core.run import TRAINING_FLAGS as FLAGS
from harness.core.run import NumericArray, Run
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation

TRAIN, EVAL, EVAL_AGAIN, FIRST_ROW, TRAIN_AGAIN = range(5)

RUNNING = "running"
"""The part of a name that marks running statistics, as in PyTorch."""

CHANCE = 1e-7
"""The probability that the rule about the mean is wrong on a correct layer, over all masks."""

LayerState = dict[str, NumericArray]


@dataclass(frozen=True)
class Scenario:
    """The log of one layer: an output, a state and flags for each entry of `SCENARIO`."""

    x: NumericArray
    outputs: tuple[NumericArray, ...]
    states: tuple[LayerState, ...]
    flags: tuple[NumericArray, ...]


def check(observation: Observation) -> Verdict:
    """Alarm at the first rule that the layer breaks."""
    scenario = read_scenario(observation.run)
    for rule in RULES:
        if violation := rule(scenario):
            return Alarm(violation)
    compared = sum(int((~np.isnan(output)).sum()) for output in scenario.outputs)
    return Silent(compared) if compared else Declined(message("the output is NaN"))


def read_scenario(run: Run) -> Scenario:
    """Return what a module probe's run observed."""
    (x,) = run.leaves.values()
    log = [{name: array.numpy() for name, array in snapshot.items()} for snapshot in run.log]
    return Scenario(
        x.numpy(),
        tuple(snapshot[name] for name, snapshot in zip(SCENARIO, log, strict=True)),
        tuple(
            {k: v for k, v in snapshot.items() if k.startswith("state.") and k != FLAGS}
            for snapshot in log
        ),
        tuple(snapshot[FLAGS] for snapshot in log),
    )


# ----- The rules: each returns how it is violated, or None -----


def flags_follow(scenario: Scenario) -> Message | None:
    """`train()` and `eval()` reach the layer and everything inside it."""
    for step, name in enumerate(SCENARIO):
        wrong = scenario.flags[step] != (step in (TRAIN, TRAIN_AGAIN))
        if wrong.any():
            call = name.split()[0].rstrip(",")
            return message(
                "{call}() does not reach {count} of the {size} modules",
                call=call,
                count=wrong.sum(),
                size=wrong.size,
            )
    return None


def evaluation_changes_nothing(scenario: Scenario) -> Message | None:
    """Evaluation does not change a layer's state."""
    for step in (EVAL, EVAL_AGAIN, FIRST_ROW):
        if changed := _changed(scenario.states[TRAIN], scenario.states[step]):
            return message("evaluation changes {state}", state=", ".join(changed))
    return None


def evaluation_is_deterministic(scenario: Scenario) -> Message | None:
    """The same input gives the same output, bit for bit."""
    once, again = scenario.outputs[EVAL], scenario.outputs[EVAL_AGAIN]
    if np.array_equal(once, again, equal_nan=True):
        return None
    return message("in evaluation the same input gives two different outputs")


def rows_stand_alone(scenario: Scenario) -> Message | None:
    """In evaluation a prediction does not depend on what else is in the batch."""
    alone, among = scenario.outputs[FIRST_ROW], scenario.outputs[EVAL][:1]
    if alone.shape != among.shape:
        return message(
            "in evaluation a row gives {alone} alone, but {among} in its batch",
            alone=alone.shape,
            among=among.shape,
        )
    # A product of other shapes may be summed in another order.
    numbers = [scenario.x, among, *scenario.states[EVAL].values()]
    if agree(alone, among, rounding(sum(array.size for array in numbers), resolution(among))):
        return None
    return message("in evaluation the prediction for a row depends on the other rows of the batch")


def training_comes_back(scenario: Scenario) -> Message | None:
    """A layer that differs between training and evaluation still does so after evaluation."""
    first, between, again = (scenario.outputs[step] for step in (TRAIN, EVAL, TRAIN_AGAIN))
    if np.array_equal(first, between, equal_nan=True):
        return None
    if not np.array_equal(again, between, equal_nan=True):
        return None
    return message("after eval() the layer stays in evaluation, although train() was called")


def training_moves_statistics_alone(scenario: Scenario) -> Message | None:
    """A forward pass in training moves every running statistic, and nothing else."""
    before, after = scenario.states[FIRST_ROW], scenario.states[TRAIN_AGAIN]
    changed = _changed(before, after)
    for name in before:
        if RUNNING in name and name not in changed:
            return message("{statistic} does not move in training", statistic=name)
    others = [name for name in changed if RUNNING not in name and before[name].dtype.kind == "f"]
    return message("a forward pass changes {state}", state=", ".join(others)) if others else None


def statistics_approach_the_batch(scenario: Scenario) -> Message | None:
    """Each running statistic of the layer itself moves towards that of the batch.

    Only the direction is checked, so that any momentum is right, and the variance may be computed
    with or without Bessel's correction: if it lies between the two, it may move either way.
    Statistics of nested layers have another input than `x`, and are not checked.
    """
    x = scenario.x
    batch = {
        f"state.{RUNNING}_mean": (x.mean(0), x.mean(0)),
        f"state.{RUNNING}_var": (x.var(0), x.var(0, ddof=1)),
    }
    for name, (low, high) in batch.items():
        before, after = scenario.states[FIRST_ROW].get(name), scenario.states[TRAIN_AGAIN].get(name)
        if before is None or after is None or before.shape != low.shape:
            continue
        step, rounding = after - before, 1e-3 * np.abs(low)
        wrong = ((before < low - rounding) & (step < 0)) | ((before > high + rounding) & (step > 0))
        if wrong.any():
            return message(
                "{statistic} moves away from that of the batch in {count} of {size} entries",
                statistic=name,
                count=wrong.sum(),
                size=wrong.size,
            )
    return None


def what_is_dropped_changes(scenario: Scenario) -> Message | None:
    """A layer that drops elements in training draws a new mask each time."""
    if not _dropped(scenario, TRAIN).any():
        return None
    if not np.array_equal(_dropped(scenario, TRAIN), _dropped(scenario, TRAIN_AGAIN)):
        return None
    return message("training drops the same elements each time")


def training_keeps_the_mean(scenario: Scenario) -> Message | None:
    """Training compensates for dropped elements: the mean over all masks equals the evaluation.

    Checked if every output is 0 or the same multiple c of the one in evaluation, as after a
    dropout. Then the n ratios of the two outputs are independent, lie in [0, c] and have the mean
    1, so by Hoeffding's inequality their average is further than `c * sqrt(log(2 / CHANCE) / 2n)`
    from 1 with a probability below `CHANCE`. (Hoeffding, Probability Inequalities for Sums of
    Bounded Random Variables, 1963, theorem 2.)
    """
    if not _dropped(scenario, TRAIN).any():
        return None
    base = scenario.outputs[EVAL]
    some = base != 0
    ratios = np.stack([scenario.outputs[step][some] / base[some] for step in (TRAIN, TRAIN_AGAIN)])
    scale = ratios.flat[np.abs(ratios).argmax()]
    if not np.allclose(ratios[ratios != 0], scale, rtol=1e-2, atol=0.0):
        return None  # another layer follows the dropout
    bound = abs(scale) * math.sqrt(math.log(2 / CHANCE) / (2 * ratios.size))
    average = ratios.mean()
    if abs(average - 1) <= bound:
        return None
    return message(
        "on average, the output in training is {average} times that in evaluation; chance "
        "explains a distance from 1 of at most {bound}",
        average=f"{average:.3g}",
        bound=f"{bound:.2g}",
    )


RULES: tuple[Callable[[Scenario], Message | None], ...] = (
    flags_follow,
    evaluation_changes_nothing,
    evaluation_is_deterministic,
    rows_stand_alone,
    training_comes_back,
    training_moves_statistics_alone,
    statistics_approach_the_batch,
    what_is_dropped_changes,
    training_keeps_the_mean,
)


def _changed(before: LayerState, after: LayerState) -> list[str]:
    """Return the names of entries that differ, or are in only one of the two."""
    return [
        name
        for name in {**before, **after}
        if name not in before
        or name not in after
        or not np.array_equal(before[name], after[name], equal_nan=True)
    ]


def _dropped(scenario: Scenario, step: int) -> NumericArray:
    """Return where an output is 0 only in training; nowhere if the shapes differ."""
    base, output = scenario.outputs[EVAL], scenario.outputs[step]
    if base.shape != output.shape:
        return np.zeros(1, bool)
    return np.asarray((output == 0) & (base != 0))


MODE = Diagnostic(
    name="mode",
    sees="a layer that confuses training and evaluation: its output, its state, its flags",
    blind="the same mistake in both modes; how fast statistics move; how many elements are dropped",
    cost="5",
    passes=lambda _: 5,
    check=check,
    kinds=("module",),
)
