"""Outcomes: what two runs of one probe come to, and the sentence that proves it."""

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import breaks
from harness.answer_key.outcome import judge
from harness.answer_key.stage import Infection, stage_of
from harness.core.message import verbatim
from harness.core.run import Failure, FailureOrigin, Run, pack
from harness.core.vocabulary import OUTCOMES, Phase, headline

CRASH = Failure(Phase.BACKWARD, "ValueError", "no", "return a + b")


def run(*, a: Any = (1.0, 2.0), output: Any = 3.0, **rest: Any) -> Run:
    given: dict[str, Any] = {"reached": [0], **rest}
    return Run("probe", "weighted", output=pack(output), gradients={"a": pack(a)}, **given)


def steps(*losses: float, **rest: Any) -> Run:
    log = [{"loss": pack(loss), "bias": pack([loss])} for loss in losses]
    return Run("probe", None, log=log, reached=[0], **rest)


def test_equal_runs_are_disguised_and_unreached_ones_say_nothing() -> None:
    assert judge(run(), run()).outcome == "disguised-correct"
    assert judge(run(reached=[]), run()).outcome == "not-reached"


def test_a_crash_is_decided_first_and_names_phase_line_and_message() -> None:
    observed = judge(run(failure=CRASH, a=[9.0]), run())
    assert observed.outcome == "crash"
    assert "ValueError in the backward pass, at `return a + b`: no" in str(observed.evidence)


def test_if_nothing_goes_wrong_before_a_crash_the_crash_is_the_only_evidence() -> None:
    assert judge(run(failure=CRASH), run()).evidence == CRASH.sentence


@pytest.mark.parametrize(
    ("broken", "kind", "evidence"),
    [
        ([[1.0, 2.0]], "shape", "a.grad has shape (1, 2), expected (2,)"),
        (np.float32([1, 2]), "dtype", "a.grad is float32, expected float64"),
        ([1.0, np.nan], "non-finite", "a.grad is [1, nan], expected [1, 2]"),
        ([1.0, 2.5], "value", "a.grad is [1, 2.5], expected [1, 2]"),
    ],
)
def test_each_kind_of_corruption_is_told_apart(broken: Any, kind: str, evidence: str) -> None:
    observed = judge(run(a=broken), run())
    assert (observed.outcome, observed.kind, str(observed.evidence)) == (
        "silent-corruption",
        kind,
        evidence,
    )


def test_shape_is_told_before_value() -> None:
    observed = judge(run(output=4.0, a=[[1.0, 2.0]]), run())
    assert observed.kind == "shape"


def test_a_forward_value_that_differs_is_corruption() -> None:
    assert str(judge(run(output=4.0), run()).evidence) == "the output is 4, expected 3"


def test_many_entries_are_counted_and_the_first_wrong_one_is_shown() -> None:
    correct = np.arange(12.0).reshape(3, 4)
    broken = correct.copy()
    broken[1, 2:] = 0
    observed = judge(run(a=broken), run(a=correct))
    assert str(observed.evidence) == "a.grad[1, 2] is 0, expected 6 (2 of 12 entries are wrong)"


def test_rounding_is_not_a_difference_and_a_millionth_is() -> None:
    correct = np.random.default_rng(0).standard_normal(1000)
    assert judge(run(a=correct * (1 + 1e-15)), run(a=correct)).outcome == "disguised-correct"
    assert judge(run(a=correct * (1 + 1e-6)), run(a=correct)).outcome == "silent-corruption"


def test_what_is_left_of_a_cancelled_gradient_is_judged_on_the_scale_of_the_other_loss() -> None:
    cancelled, rest, other = run(a=[0.0, 0.0]), run(a=[1e-17, -3e-17]), run(a=[0.2, -0.1])
    assert judge(rest, cancelled, [other]).outcome == "disguised-correct"
    assert judge(rest, cancelled).outcome == "silent-corruption"
    assert judge(run(a=[1e-9, 0.0]), cancelled, [other]).outcome == "silent-corruption"


def test_nan_equals_nan_only_in_the_same_place() -> None:
    here, there = [np.nan, 1.0], [1.0, np.nan]
    assert judge(run(a=here), run(a=here)).outcome == "disguised-correct"
    assert judge(run(a=there), run(a=here)).outcome == "silent-corruption"


def test_a_missing_gradient_is_corruption() -> None:
    broken = Run("probe", "weighted", output=pack(3.0), gradients={"a": None}, reached=[0])
    assert str(judge(broken, run()).evidence) == "a has no gradient, expected one"


def test_a_gradient_where_none_is_expected_is_corruption() -> None:
    correct = Run("probe", "weighted", output=pack(3.0), gradients={"a": None}, reached=[0])
    observed = judge(run(), correct)
    assert (observed.outcome, observed.kind) == ("silent-corruption", "value")
    assert str(observed.evidence) == "a has a gradient, expected none"
    assert judge(correct, correct).outcome == "disguised-correct"


def test_a_log_is_followed_to_the_first_step_that_differs() -> None:
    observed = judge(steps(3.0, 2.0, 0.5), steps(3.0, 2.0, 1.0))
    assert str(observed.first_divergence) == "step 2: loss"
    assert str(observed.evidence).startswith("after step 2, ")


def test_a_loss_that_ends_lower_than_the_correct_one_is_still_corruption() -> None:
    observed = judge(steps(3.0, 0.5), steps(3.0, 1.0))
    assert (observed.outcome, observed.better_than_correct) == ("silent-corruption", True)
    assert str(observed.evidence).endswith("the loss ends at 0.5, lower than the correct 1")
    assert not judge(steps(3.0, 2.0), steps(3.0, 1.0)).better_than_correct


def test_a_log_that_stops_early_is_corruption() -> None:
    assert "2 steps were made, expected 3" in str(
        judge(steps(3.0, 2.0), steps(3.0, 2.0, 1.0)).evidence
    )


def test_a_crash_after_silent_steps_says_both() -> None:
    observed = judge(steps(3.0, 9.0, failure=CRASH), steps(3.0, 2.0, 1.0))
    assert observed.outcome == "crash"
    assert "Before that, silently: after step 1" in str(observed.evidence)


# ----- Where the correct engine refuses the probe -----

HERE = FailureOrigin("statement", "e.py", 7, "add", "raise ValueError(shape)")
REFUSAL = Failure(Phase.STEP, "ValueError", "shape (3,)", "yield a + b", step=1, origin=HERE)
ELSEWHERE = msgspec.structs.replace(HERE, statement="raise ValueError(rank)")
MOVED = msgspec.structs.replace(HERE, line=5)


def refusal(**changes: Any) -> Failure:
    return msgspec.structs.replace(REFUSAL, **changes)


@pytest.mark.parametrize(
    ("end", "losses", "reached", "outcome", "kind"),
    [
        (None, (3.0, 2.0), [0], "silent-corruption", "guard-lost"),
        (refusal(type="ZeroDivisionError"), (3.0,), [0], "crash", None),
        (refusal(phase=Phase.IMPORT, step=None), (), [], "crash", None),
        (refusal(step=2), (3.0, 2.0), [0], "crash", None),
        (refusal(where="yield a * b"), (3.0,), [0], "disguised-correct", "refused-elsewhere"),
        (refusal(origin=ELSEWHERE), (9.0,), [0], "silent-corruption", "value"),
        (REFUSAL, (9.0,), [0], "silent-corruption", "value"),
        (refusal(origin=ELSEWHERE), (3.0,), [0], "disguised-correct", "refused-elsewhere"),
        (refusal(origin=None), (3.0,), [0], "disguised-correct", "refused-elsewhere"),
        (refusal(message="shape (4,)"), (3.0,), [0], "disguised-correct", "refused"),
        (refusal(origin=MOVED), (3.0,), [0], "disguised-correct", "refused"),
        (REFUSAL, (3.0,), [], "not-reached", None),
    ],
)
def test_two_ends_are_compared_by_type_and_place(
    end: Failure | None, losses: tuple[float, ...], reached: list[int], outcome: str, kind: str
) -> None:
    correct = steps(3.0, failure=REFUSAL)
    broken = msgspec.structs.replace(steps(*losses, failure=end), reached=reached)
    judged = judge(broken, correct)
    assert (judged.outcome, judged.kind) == (outcome, kind)
    assert ("both" in str(judged.evidence)) is False
    for failure in (end, REFUSAL):
        named = failure and str(failure) in str(judged.evidence)
        assert named or outcome == "not-reached" or failure is None or kind in ("refused", "value")


def test_a_crash_instead_of_a_refusal_also_says_what_was_wrong_before() -> None:
    end = refusal(type="KeyError")
    judged = judge(steps(9.0, failure=end), steps(3.0, failure=REFUSAL))
    assert str(judged.evidence) == (
        f"{end}; the correct engine fails with {REFUSAL}. "
        "Before that, silently: after step 0, loss is 9, expected 3"
    )


SAME_STATEMENT = "it ran, and the same statement refuses this input"


@pytest.mark.parametrize(
    ("kind", "inside", "guard", "stage", "sentence"),
    [
        ("refused", "right", True, "not-infected", SAME_STATEMENT),
        ("refused", "wrong", True, "not-propagated", SAME_STATEMENT),
        (
            *("refused-elsewhere", "right", True, "not-propagated"),
            "refused, but not where it should be",
        ),
        (None, "right", True, "not-infected", "it ran, but there was nothing to refuse here"),
        (None, "another-way", True, "not-infected", "it ran, but there was nothing to refuse here"),
        (None, "wrong", True, "not-propagated", "wrong inside (f), but no result is wrong"),
        (None, "right", False, "not-infected", "hidden here: on this input all numbers are right"),
    ],
)
def test_a_refusal_is_not_a_formula(
    kind: str | None, inside: Any, guard: bool, stage: str, sentence: str
) -> None:
    infection = Infection(inside, verbatim("f"))
    observed = stage_of("disguised-correct", infection, (), kind=kind, guard_is_lost=guard)
    assert (observed[0], str(observed[1])) == (stage, sentence)


def test_the_headline_is_the_most_insidious_outcome() -> None:
    assert headline({"crash", "disguised-correct", "silent-corruption"}) == "silent-corruption"
    assert headline({"crash", "disguised-correct"}) == "crash"
    assert headline(set()) == "does-not-apply"
    assert all(headline({outcome}) == outcome for outcome in OUTCOMES)


def test_an_input_that_was_changed_is_corruption_where_the_correct_engine_leaves_it() -> None:
    observed = judge(run(mutated={"b": pack(1.0)}), run())
    assert (observed.outcome, observed.kind) == ("silent-corruption", "mutated-input")
    assert str(observed.evidence) == "b was changed by the run"
    both = run(mutated={"b": pack(1.0)})
    assert judge(both, both).outcome == "disguised-correct"


def test_memory_that_is_shared_is_corruption_where_the_correct_engine_keeps_it_apart() -> None:
    observed = judge(run(shared=[("a.grad", "b.grad")]), run())
    assert (observed.kind, str(observed.evidence)) == ("aliased", "a.grad and b.grad share memory")
    assert judge(run(), run(shared=[("a.grad", "b.grad")])).outcome == "disguised-correct"


def test_a_draw_from_the_global_generator_is_state() -> None:
    assert judge(run(generator_moved=True), run()).kind == "state"
    assert judge(run(), run(generator_moved=True)).outcome == "disguised-correct"


def test_what_an_object_carries_is_state() -> None:
    def log(moment: Any, weight: float = 1.0) -> Run:
        observed = {"weight": pack(weight), "optimizer.m": pack(moment)}
        return Run("probe", None, log=[observed], reached=[0])

    state = judge(log(2.0), log(1.0))
    assert (state.kind, str(state.first_divergence)) == ("state", "step 0: optimizer.m")
    assert judge(log([2.0]), log(1.0)).kind == "state"
    assert judge(log(2.0, weight=3.0), log(1.0)).kind == "value"


def test_a_key_that_is_no_longer_logged_is_corruption() -> None:
    full = Run("probe", None, log=[{"a": pack(1.0), "b.c": pack(1.0)}], reached=[0])
    part = Run("probe", None, log=[{"a": pack(1.0)}], reached=[0])
    assert judge(part, full).kind == "state"
    assert "b.c is not in the log" in str(judge(part, full).evidence)


# ----- What the guide says about rounding -----

GUIDE = (Path(breaks.__file__).parent / "README.md").read_text(encoding="utf-8")


def stated(column: int) -> dict[int, str]:
    """A column of the guide's table, by the number of elements."""
    table = GUIDE.partition("### What counts as a difference")[2].partition("If the other")[0]
    rows = re.findall(r"\| (?:up to )?(\d+) \| (\S+) \| (\S+) \|", table)
    return {int(row[0]): row[column] for row in rows}


@pytest.mark.parametrize(("column", "dtype"), [(1, np.float64), (2, np.float32)])
def test_the_guide_states_how_far_two_arrays_may_be_apart(column: int, dtype: Any) -> None:
    eps = float(np.finfo(dtype).eps)
    assert len(stated(column)) == 4
    for elements, limit in stated(column).items():
        exact = 8 * math.sqrt(4 * max(elements, 16)) * eps
        assert limit == f"{exact:.1e}"
        correct = np.linspace(0.0, 2.0, elements, dtype=dtype)
        within, beyond = correct.copy(), correct.copy()
        within[0], beyond[0] = 2 * 0.99 * exact, 2 * 1.01 * exact
        assert judge(run(a=within), run(a=correct)).outcome == "disguised-correct"
        assert judge(run(a=beyond), run(a=correct)).outcome == "silent-corruption"


def test_each_step_of_a_log_adds_roundings() -> None:
    """At step 48, as the guide says, seven times as much as at the first step."""
    limit = 8 * math.sqrt(4 * 16) * float(np.finfo(float).eps)
    assert "at step 48 (the first is 0), r is seven times as large" in GUIDE
    for step, factor, outcome in (
        (0, 1.01, "silent-corruption"),
        (48, 6.9, "disguised-correct"),
        (48, 7.1, "silent-corruption"),
    ):
        right = [1.0] * 49
        wrong = [*right[:step], 1.0 + factor * limit, *right[step + 1 :]]
        assert judge(steps(*wrong), steps(*right)).outcome == outcome


def test_one_per_cent_is_never_rounding() -> None:
    correct = np.float16([1.0, 2.0, 4.0])
    assert judge(run(a=correct * np.float16(1.005)), run(a=correct)).outcome == "disguised-correct"
    assert judge(run(a=correct * np.float16(1.02)), run(a=correct)).outcome == "silent-corruption"


def test_the_guide_is_right_about_chance_and_about_the_worst_case() -> None:
    assert "a probability below 3e-14" in GUIDE
    assert 2 * math.exp(-(8**2) / 2) < 3e-14
    n, u = 4 * 300, float(np.finfo(np.float32).eps) / 2
    assert "one part in ten thousand in 300 elements" in GUIDE
    assert 8 * math.sqrt(n) * 2 * u < 1e-4 < 2 * n * u / (1 - n * u)


def test_whole_numbers_must_be_equal() -> None:
    assert judge(run(a=[2**53, 1]), run(a=[2**53, 1])).outcome == "disguised-correct"
    assert judge(run(a=[2**53, 1]), run(a=[2**53 - 1, 1])).outcome == "silent-corruption"
