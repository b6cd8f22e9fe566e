"""Diagnostics: each catches what it says, and none is silent without having compared."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.measurement import Measurement
from harness.core.message import Message, message
from harness.core.run import Failure, Measured, Run, pack
from harness.core.vocabulary import Alarm, Declined, Phase, Silent, Skipped, Verdict
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.diagnostics.diagnostic import ONLY_KINKS, ONLY_NAN
from harness.diagnostics.gradcheck import MOST_ELEMENTS
from harness.diagnostics.mode import SCENARIO
from harness.engines.engine import find_engine
from harness.pages.probe import read_probes
from harness.runs.isolated import run_isolated
from harness.runs.trial import Trial
from tests.harness.diagnostics.wrong_engines import runs_of
from tests.harness.tiny import TINY, tiny_job
from tests.harness.verdicts import alarm, declined, in_english, skipped

NAMED = {diagnostic.name: diagnostic for diagnostic in DIAGNOSTICS}
GRADIENT, STEPS = read_probes(
    "def g(a=(2,)):\n    'doc'\n    return a\n\ndef s(lib):\n    'doc'\n    yield {}\n", "p.py"
)
CRASH = Failure(Phase.BACKWARD, "ValueError", "no")


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


@pytest.mark.parametrize(
    "name", [item.name for item in DIAGNOSTICS if item.measure and "gradient" in item.kinds]
)
def test_no_measurement_can_make_a_diagnostic_fail(name: str) -> None:
    output = {"output": pack([3.0, 4.0]), "cotangent": pack([1.0, 1.0])}
    for measured in (Measured(), Measured({"a": pack(np.zeros((0, 7)))}, {"noise": np.nan})):
        verdict = evaluate(NAMED[name], observed(measured={name: measured}, **output))
        assert isinstance(verdict, Declined | Skipped | Alarm | Silent)
    assert isinstance(
        evaluate(NAMED["gradcheck"], observed(measured={"gradcheck": Measured()})), Declined
    )


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


# ----- Declined: it looked but could not judge -----


def test_an_entry_that_is_logged_once_is_not_compared() -> None:
    once = logged({"w": [1.0]})
    for name in ("shape", "dtype"):
        assert in_english(NAMED[name].check(once)) == declined("no entry is logged twice")
    assert NAMED["shape"].check(logged({"w": [1.0]}, {"w": [1.0], "v": 2.0})) == Silent(1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("finite", "no number in the log is finite"),
        ("training-log", "the log is empty"),
        ("trajectory", "there is no number in the log to compare"),
        ("loss-falls", "the log does not have two losses"),
    ],
)
def test_a_log_without_numbers_is_not_judged(name: str, reason: str) -> None:
    empty = logged({"w": []}, {"w": []}, {"w": []})
    pytorch = Run("s", None, log=empty.run.log)
    observation = Observation(STEPS, empty.run, {"torch": pytorch})
    assert in_english(NAMED[name].check(observation)) == declined(reason)


def test_a_layer_whose_outputs_are_nan_is_not_judged() -> None:
    (layer,) = read_probes("def module_m(lib, x=(2, 1)):\n    'doc'\n    return lib.M()\n", "p.py")
    flags = [[step in (0, 4)] for step in range(5)]
    for value, verdict in ((np.nan, Declined), (1.0, Silent)):
        outputs = [np.full((1 if "row" in name else 2, 1), value) for name in SCENARIO]
        log = [
            {name: pack(output), "state.training": pack(flag)}
            for name, output, flag in zip(SCENARIO, outputs, flags, strict=True)
        ]
        run = Run("module-m", None, leaves={"x": pack(np.ones((2, 1)))}, log=log)
        assert isinstance(evaluate(NAMED["mode"], Observation(layer, run, {})), verdict)


def test_a_log_of_nan_that_pytorch_gives_too_is_not_judged() -> None:
    nan = logged({"w": [np.nan, np.nan]}).run
    result = NAMED["trajectory"].check(Observation(STEPS, nan, {"torch": nan}))
    assert in_english(result) == declined("there is no number in the log to compare")


@pytest.mark.parametrize(("resume_at", "verdict"), [(1, Silent), (2, Declined), (None, Skipped)])
def test_checkpoint_judges_only_what_is_logged_after_it(
    resume_at: int | None, verdict: type[Verdict]
) -> None:
    log = [{"w": pack([1.0])}, {"w": pack([2.0])}]
    ways = {f"{way}/{i}/w": log[i]["w"] for way in ("straight", "again") for i in range(2)}
    run = Run("s", None, log=log, measured={"checkpoint": Measured(ways)})
    probe = replace(STEPS, resume_at=resume_at)
    assert isinstance(evaluate(NAMED["checkpoint"], Observation(probe, run, {})), verdict)


@pytest.mark.parametrize("name", ["second-backward", "metamorphic"])
def test_without_a_gradient_nothing_can_add_up(name: str) -> None:
    measured = Measured({"zero/a/actual": pack([0.0]), "zero/a/expected": pack([0.0])}, {"a": 0.0})
    result = evaluate(NAMED[name], observed(None, measured={name: measured}))
    assert in_english(result) == declined("no leaf has a gradient")


def test_an_infinite_gradient_is_twice_itself_whatever_was_added() -> None:
    once = Measured({"anew/a": pack([np.inf, np.inf])})
    result = evaluate(
        NAMED["second-backward"], observed([np.inf, np.inf], measured={"second-backward": once})
    )
    assert in_english(result) == declined("no gradient is finite")


def test_gradients_without_elements_share_no_memory() -> None:
    empty = observed([], leaves={"a": pack([])}, measured={"aliasing": Measured()})
    assert in_english(evaluate(NAMED["aliasing"], empty)) == declined(
        "the gradients have no elements"
    )


@pytest.mark.parametrize(
    ("expected", "error", "reason"),
    [
        ([np.nan, np.nan], [0.0, 0.0], ONLY_NAN),
        ([1.0, 2.0], [np.inf, np.inf], ONLY_KINKS),
        ([], [], message("there is nothing to compare")),
    ],
    ids=["nan", "kinks", "empty"],
)
def test_gradcheck_says_why_it_compares_nothing(
    expected: list[float], error: list[float], reason: Message
) -> None:
    numbers = Measured({"a": pack(expected), "error of a": pack(error)})
    gradient = [5.0] * len(expected)
    run = observed(gradient, leaves={"a": pack(gradient)}, measured={"gradcheck": numbers})
    assert evaluate(NAMED["gradcheck"], run) == Declined(reason)


@pytest.mark.parametrize("name", ["forward", "purity"])
def test_an_output_of_nan_is_not_compared(name: str) -> None:
    nan = pack([np.nan, np.nan])
    measured = {"forward": Measured(numbers={"noise": 0.0}), "purity": Measured({"output": nan})}
    observation = observed(output=nan, measured=measured)
    pytorch = Run("g", "weighted", output=nan)
    result = evaluate(NAMED[name], replace(observation, independent={"torch": pytorch}))
    assert in_english(result) == declined("the output is NaN")


SEES_NAN = {"crash", "shape", "dtype", "aliasing"}
"""These do not compare the numbers themselves."""


def test_silence_on_an_output_of_nan_comes_only_from_those_that_look_at_no_number() -> None:
    (probe,) = read_probes("def g(a=(2,)):\n    'doc'\n    return a * float('nan')\n", "p.py")
    silent = set()
    for _, run in runs_of(find_engine(), [probe]):
        for name, diagnostic in NAMED.items():
            libraries = dict.fromkeys(("torch", "autograd"), run)
            result = evaluate(diagnostic, Observation(probe, run, libraries))
            silent |= {name} if isinstance(result, Silent) else set()
    assert silent == SEES_NAN


def fail_in_the_check(trial: Trial, run: Run) -> Measured:
    raise ValueError(f"{trial.probe.name} has {len(run.leaves)} leaves")


def fail_in_the_engine(trial: Trial, run: Run) -> Measured:
    return Measured({"output": pack(trial.output(dict.fromkeys(run.leaves, "text")))})


@pytest.mark.parametrize(
    ("measure", "verdict"), [(fail_in_the_check, Declined), (fail_in_the_engine, Alarm)]
)
def test_an_exception_in_the_measurement_itself_is_not_held_against_the_engine(
    measure: Callable[[Trial, Run], Measured], verdict: type[Verdict]
) -> None:
    measurement = Measurement("purity", f"{__name__}:{measure.__name__}")
    run = run_isolated(tiny_job(measure=(measurement,)))[0]
    result = evaluate(NAMED["purity"], Observation(GRADIENT, run, {}))
    assert isinstance(result, verdict)
    assert "Error: " in str(result)
    if isinstance(result, Declined):
        text = "the measurement itself failed: ValueError: square has 1 leaves"
        assert str(result.reason) == text


def test_a_gradient_that_does_not_fit_its_leaf_stops_the_hand_made_loop() -> None:
    text = TINY.replace("* cotangent", "* cotangent * np.ones((2, 4, 1))").replace(
        "2 * self.parent.data", "np.ones((1, 1, 2)) * cotangent.sum()"
    )
    text = text.replace("* cotangent * np", "* np")
    run = run_isolated(tiny_job(text, measure=(NAMED["loss-falls"].measurement,)))[0]
    result = evaluate(NAMED["loss-falls"], Observation(GRADIENT, run, {}))
    assert isinstance(result, Alarm)
    assert "could not be broadcast" in str(result.message)
