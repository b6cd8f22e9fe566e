"""Diagnostics: each catches what it says, and none is silent without having compared."""

from typing import Any

import numpy as np
import pytest

from harness.core.run import Failure, Measured, Run, pack
from harness.core.verdict import Alarm, Declined, Silent, Skipped
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.diagnostics.gradcheck import MOST_ELEMENTS
from harness.pages.probe import read_probes
from harness.runs.isolated import run_isolated
from tests.harness.tiny import TINY, tiny_job
from tests.harness.verdicts import alarm, in_english, skipped

NAMED = {diagnostic.name: diagnostic for diagnostic in DIAGNOSTICS}
GRADIENT, STEPS = read_probes(
    "def g(a=(2,)):\n    'doc'\n    return a\n\ndef s(lib):\n    'doc'\n    yield {}\n", "p.py"
)
CRASH = Failure("the backward pass", "ValueError", "no")


def observed(gradient: Any = (1.0, 2.0), **rest: Any) -> Observation:
    leaf, answer = pack([3.0, 4.0]), pack([1.0, 2.0])
    given: dict[str, Any] = {
        "leaves": {"a": leaf},
        "gradients": {"a": None if gradient is None else pack(gradient)},
        "measured": {
            "gradcheck": Measured({"a": answer, "error of a": pack([0.0, 0.0])}),
            "torch": Measured({"a": pack(0.0)}),
            "loss-falls": Measured(numbers={"before": 2.0, "after": 1.0, "rounding": 0.0}),
        },
    }
    run = Run("g", "weighted", **(given | rest))
    torch = Run("g", "weighted", leaves={"a": leaf}, gradients={"a": answer})
    return Observation(GRADIENT, run, {"torch": torch, "autograd": skipped("not asked")})


def logged(*snapshots: dict[str, Any]) -> Observation:
    log = [{name: pack(value) for name, value in snapshot.items()} for snapshot in snapshots]
    run = Run("s", None, log=log, measured={"loss-falls": Measured()})
    return Observation(STEPS, run, {"torch": skipped("not asked")})


@pytest.mark.parametrize("name", [name for name in NAMED if not NAMED[name].looks_at_crashes])
def test_a_crashed_run_is_not_silence(name: str) -> None:
    assert isinstance(evaluate(NAMED[name], observed(failure=CRASH)), Skipped)
    assert isinstance(evaluate(NAMED["crash"], observed(failure=CRASH)), Alarm)


@pytest.mark.parametrize("name", ["gradcheck", "torch"])
@pytest.mark.parametrize(
    "gradient",
    [
        [1.0, 2.0001],
        [[1.0, 2.0]],
        [1.0, np.nan],
        [1.0, np.inf],
        None,
    ],
    ids=["off by 1e-4", "another shape", "nan", "inf", "none"],
)
def test_a_wrong_gradient_is_caught(name: str, gradient: Any) -> None:
    assert isinstance(evaluate(NAMED[name], observed(gradient)), Alarm)


def test_no_gradient_where_zeros_are_due_is_right() -> None:
    zeros = Measured({"a": pack([0.0, 0.0]), "error of a": pack([0.0, 0.0])})
    assert isinstance(
        evaluate(NAMED["gradcheck"], observed(None, measured={"gradcheck": zeros})), Silent
    )


def test_shape_compares_shapes_and_nothing_else() -> None:
    assert in_english(evaluate(NAMED["shape"], observed([[1.0, 2.0]]))) == alarm(
        "a.grad has shape (1, 2), but a has shape (2,)"
    )
    assert isinstance(evaluate(NAMED["shape"], observed([7.0, 7.0])), Silent)
    assert isinstance(evaluate(NAMED["shape"], observed(None)), Alarm)


def test_shape_follows_a_log_from_its_first_entry() -> None:
    grows = logged({"bias": [0.0]}, {"bias": [[0.0], [0.0]]})
    assert in_english(evaluate(NAMED["shape"], grows)) == alarm(
        "bias has shape (2, 1) after step 1, but had (1,) before"
    )
    assert isinstance(evaluate(NAMED["shape"], logged({"bias": [0.0]}, {"bias": [1.0]})), Silent)
    assert isinstance(evaluate(NAMED["shape"], logged()), Alarm)


def test_loss_falls_looks_at_the_ends_of_a_log() -> None:
    name = NAMED["loss-falls"]
    assert isinstance(evaluate(name, logged({"loss": 3.0}, {"loss": 9.0}, {"loss": 1.0})), Silent)
    assert in_english(evaluate(name, logged({"loss": 3.0}, {"loss": 3.5}))) == alarm(
        "the loss goes from 3 to 3.5"
    )
    assert isinstance(evaluate(name, logged({"loss": 3.0}, {"loss": np.nan})), Alarm)
    assert isinstance(evaluate(name, logged({"loss": 3.0})), Declined)


def test_a_missing_library_is_skipped_and_one_that_fails_declines() -> None:
    run = observed().run
    missing = Observation(GRADIENT, run, {"torch": skipped("torch is not installed: get it")})
    assert in_english(evaluate(NAMED["torch"], missing)) == skipped(
        "torch is not installed: get it"
    )
    failed = Observation(GRADIENT, run, {"torch": Run("g", "weighted", failure=CRASH)})
    assert isinstance(evaluate(NAMED["torch"], failed), Declined)


def test_a_diagnostic_that_compared_nothing_cannot_be_silent() -> None:
    with pytest.raises(ValueError, match="compared nothing"):
        Silent(compared=0)


@pytest.mark.parametrize(("name", "compared"), [("shape", 2), ("dtype", 2), ("finite", 4)])
def test_a_silent_diagnostic_counts_the_entries_of_the_log(name: str, compared: int) -> None:
    log = logged({"loss": 3.0, "w": 1.0}, {"loss": 2.0, "w": 1.5})
    assert NAMED[name].check(log) == Silent(compared)


def test_gradcheck_measures_the_derivative_of_the_engines_own_forward_pass() -> None:
    run = run_isolated(tiny_job(measure=(NAMED["gradcheck"].measurement,)))[1]
    assert run.cotangent is not None
    expected = 2 * np.array([1.0, 2.0, 3.0]) * run.cotangent.numpy()
    measured = run.measured["gradcheck"].values["a"].numpy()
    np.testing.assert_allclose(measured, expected, rtol=1e-8)


def test_gradcheck_is_blind_where_forward_and_backward_are_wrong_together() -> None:
    """Twice the square, with the gradient of twice the square: consistent, and wrong."""
    text = TINY.replace("self.data**2", "2 * self.data**2").replace("= 2 * self", "= 4 * self")
    run = run_isolated(tiny_job(text, measure=(NAMED["gradcheck"].measurement,)))[1]
    assert isinstance(evaluate(NAMED["gradcheck"], Observation(GRADIENT, run, {})), Silent)


def test_gradcheck_declines_large_leaves_and_a_forward_that_fails() -> None:
    large = f"def g(a=({MOST_ELEMENTS + 1},)):\n    'doc'\n    return a.square()\n"
    run = run_isolated(tiny_job(probes=large, measure=(NAMED["gradcheck"].measurement,)))[0]
    assert "elements exceed the limit" in str(
        evaluate(NAMED["gradcheck"], Observation(GRADIENT, run, {}))
    )
    moved = "if self.data.size == 3 and self.data[0] != 1: raise ValueError('moved')"
    text = TINY.replace("        out = Ten", f"        {moved}\n        out = Ten")
    run = run_isolated(tiny_job(text, measure=(NAMED["gradcheck"].measurement,)))[0]
    assert "ValueError: moved" in str(evaluate(NAMED["gradcheck"], Observation(GRADIENT, run, {})))


def test_loss_falls_follows_a_gradient_of_another_shape_as_a_hand_made_loop_would() -> None:
    text = TINY.replace("* cotangent", "* cotangent * np.ones((2, 1))")
    run = run_isolated(tiny_job(text, measure=(NAMED["loss-falls"].measurement,)))[0]
    gradient = run.gradients["a"]
    assert gradient is not None
    assert gradient.shape == (2, 3)
    assert run.measured["loss-falls"].numbers.keys() == {"before", "after", "rounding"}


def test_every_diagnostic_says_what_it_sees_what_it_misses_and_what_it_costs() -> None:
    assert len(NAMED) == len(DIAGNOSTICS)
    for diagnostic in DIAGNOSTICS:
        assert diagnostic.sees
        assert diagnostic.blind
        assert diagnostic.cost
