"""The rules of `training-log`: each at its threshold, on logs made up."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.core.run import Array, Run
from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics import Observation, evaluate
from harness.diagnostics import training_log as log_module
from harness.diagnostics.training_log import TRAINING_LOG
from harness.pages.probe import read_probes
from tests.harness.diagnostics.logs import log_of


def steps(**series: Any) -> list[dict[str, Any]]:
    """One snapshot a step, from one list of values a name."""
    length = max(len(values) for values in series.values())
    return [
        {name: values[i] for name, values in series.items() if i < len(values)}
        for i in range(length)
    ]


DOWN = [3.0, 2.0, 1.0]
W = [np.array([1.0]), np.array([2.0]), np.array([3.0])]

LOG_ROWS: list[tuple[Callable[..., str | None], dict[str, Any], dict[str, Any], str]] = [
    # rule, a log that breaks it, one that just does not, what it says
    (
        log_module.not_finite,
        {"loss": [3.0, np.nan]},
        {"loss": [3.0, 2.0]},
        "loss is not finite at step 1",
    ),
    (
        log_module.not_finite,
        {"w": [np.array([1, np.inf])]},
        {"w": [np.array([1, 1e300])]},
        "w is not finite at step 0",
    ),
    (
        log_module.another_kind,
        {"w": [np.ones(1), np.ones((2, 1))]},
        {"w": W},
        "from shape (1,) to (2, 1) at step 1",
    ),
    (
        log_module.another_kind,
        {"w": [np.ones(1, "f4"), np.ones(1)]},
        {"w": W},
        "from float32 to float64 at step 1",
    ),
    (
        log_module.broken_identity,
        {"gap_error": [0.0, -2e-4]},
        {"gap_error": [0.0, 9e-5]},
        "gap_error is 0.0002 at step 1",
    ),
    (
        log_module.loss_is_not_a_number,
        {"loss": [np.ones(2)]},
        {"loss": [np.ones(1)]},
        "shape (2,) at step 0",
    ),
    (
        log_module.negative_loss,
        {"validation_loss": [1.0, -1e-3]},
        {"validation_loss": [1.0, 0.0]},
        "-0.001 at step 1",
    ),
    (log_module.flat_loss, {"loss": [2.0] * 3}, {"loss": [2.0, 2.0, 1.9]}, "2 at each of 3 steps"),
    (log_module.flat_loss, {"loss": [2.0] * 3}, {"loss": [0.0] * 3}, "2 at each of 3 steps"),
    (log_module.flat_loss, {"loss": [2.0] * 3}, {"loss": [2.0] * 2}, "2 at each of 3 steps"),
    (
        log_module.diverging_loss,
        {"loss": [1.0, 0.5, 2.1]},
        {"loss": [1.0, 9.0, 1.9]},
        "from 1 to 2.1",
    ),
    (
        log_module.far_from_chance,
        {"loss": DOWN, "chance_loss": [1.4] * 3},
        {"loss": DOWN, "chance_loss": [1.6] * 3},
        "starts at 3",
    ),
    (
        log_module.validation_apart,
        {"loss": DOWN, "validation_loss": [0.9]},
        {"loss": DOWN, "validation_loss": [1.1]},
        "validation loss 0.9",
    ),
    (
        log_module.validation_apart,
        {"loss": DOWN, "validation_loss": [9.5]},
        {"loss": DOWN, "validation_loss": [8.5]},
        "validation loss 9.5",
    ),
    (
        log_module.still_array,
        {"loss": DOWN, "w": W[:1] * 3},
        {"loss": DOWN, "w": W[:1] * 2 + W[1:2]},
        "w never changes in 3 steps",
    ),
    (
        log_module.still_array,
        {"loss": DOWN, "w": W[:1] * 3},
        {"loss": DOWN, "lr": [0.1] * 3},
        "w never changes in 3 steps, while loss",
    ),
    (
        log_module.still_array,
        {"loss": DOWN, "w": W[:1] * 3},
        {"w": W[:1] * 3},
        "w never changes in 3 steps",
    ),
    (
        log_module.still_array,
        {"loss": DOWN, "w": W[:1] * 3},
        {"loss": DOWN, "w": W[:1] * 2},
        "w never changes in 3 steps",
    ),
    (
        log_module.idle_step,
        {"w": [W[0], W[0], W[1]], "grad_norm": DOWN},
        {"w": [W[0], W[1], W[1]], "grad_norm": [3.0, 0.0, 0.0]},
        "step 0 changes no parameter",
    ),
    (
        log_module.idle_step,
        {"w": [W[0], W[1], W[1]], "grad_norm": DOWN},
        {"w": W, "grad_norm": DOWN},
        "step 1 changes no parameter",
    ),
    (
        log_module.exploding_array,
        {"h": [np.array([0.1]), np.array([1001.0])]},
        {"h": [np.array([0.1]), np.array([999.0])]},
        "h has norm 1e+03 at step 1",
    ),
    (
        log_module.exploding_array,
        {"h": [np.array([10.0]), np.array([10001.0])]},
        {"h": [np.array([10.0]), np.array([9999.0])]},
        "but 10 at first",
    ),
    (
        log_module.vanished_gradient,
        {"loss": DOWN, "grad_norm": [1.0, 0.0, 1.0]},
        {"loss": [1.0, 0.0], "grad_norm": [1.0, 0.0]},
        "grad_norm is 0 at step 1",
    ),
    (
        log_module.vanished_gradient,
        {"loss": DOWN, "grad_norm_first": [0.0]},
        {"loss": DOWN, "norm": [0.0]},
        "grad_norm_first is 0",
    ),
    (
        log_module.exploding_gradient,
        {"grad_norm": [1.0, 1001.0]},
        {"grad_norm": [1.0, 999.0]},
        "from 1 to 1e+03 at step 1",
    ),
    (
        log_module.exploding_gradient,
        {"grad_norm": [1.0, 1001.0]},
        {"grad_norm": [0.0, 1001.0]},
        "from 1 to 1e+03 at step 1",
    ),
    (
        log_module.uneven_gradients,
        {"grad_norm_a": [1.0], "grad_norm_b": [9e-5]},
        {"grad_norm_a": [1.0], "grad_norm_b": [2e-4]},
        "grad_norm_b is 9e-05",
    ),
    (
        log_module.uneven_gradients,
        {"grad_norm_a": [1.0], "grad_norm_b": [9e-5]},
        {"grad_norm_a": [1.0]},
        "and grad_norm_a is 1",
    ),
    (
        log_module.uneven_gradients,
        {"grad_norm_a": [100.0], "grad_norm_b": [9e-3]},
        {"grad_norm_a": [100.0], "grad_norm_b": [2e-2]},
        "grad_norm_b is 0.009",
    ),
    (
        log_module.wrong_clipping,
        {"grad_norm": [9.0], "clipped_norm": [6.1], "max_norm": [6.0]},
        {"grad_norm": [9.0], "clipped_norm": [5.999], "max_norm": [6.0]},
        "clipped to 6.1, expected 6",
    ),
    (
        log_module.wrong_clipping,
        {"grad_norm": [5.0], "clipped_norm": [6.0], "max_norm": [6.0]},
        {"grad_norm": [5.0], "clipped_norm": [5.0], "max_norm": [6.0]},
        "clipped to 6, expected 5",
    ),
]


@pytest.mark.parametrize(("rule", "bad", "good", "says"), LOG_ROWS)
def test_each_rule_about_logs_at_its_threshold(
    rule: Callable[..., str | None], bad: dict[str, Any], good: dict[str, Any], says: str
) -> None:
    text = rule(log_module.read_log(log_of(*steps(**bad))))
    assert text is not None
    assert says in str(text)
    assert rule(log_module.read_log(log_of(*steps(**good)))) is None


def test_every_rule_about_logs_is_tried() -> None:
    assert {row[0] for row in LOG_ROWS} == set(log_module.RULES)


def test_training_log_asks_every_rule_and_counts_the_entries() -> None:
    (probe,) = read_probes("def s(lib):\n    'doc'\n    yield {}\n", "p.py")

    def text(log: list[dict[str, Array]]) -> Verdict:
        return evaluate(TRAINING_LOG, Observation(probe, Run("s", None, log=log), {}))

    for _, bad, _, _ in LOG_ROWS:
        assert isinstance(text(log_of(*steps(**bad))), Alarm), bad
    assert text(log_of(*steps(loss=DOWN, w=W))) == Silent(6)
    assert isinstance(text([]), Declined)
