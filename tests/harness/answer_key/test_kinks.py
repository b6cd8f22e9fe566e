"""Kinks: in each entry, another valid choice is not a bug, and everything else is."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad
from harness.answer_key.outcome import judge
from harness.answer_key.tolerances import KINKS, measure_kinks
from harness.core.run import Run, pack
from harness.core.vocabulary import Loss, Outcome
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.pages.probe import read_probes
from harness.runs.trial import Trial, observe
from tests.examples import examples


def key_of(body: str, loss: Loss = "uniform") -> Run:
    """The clean run of the probe `p`, whose leaves and result are `body`, with its kinks."""
    leaves, _, result = body.partition(" -> ")
    (probe,) = read_probes(f"def p(lib, {leaves}):\n    'doc'\n    return {result}\n", "p.py")
    trial = Trial(Library(Dialect(module="minigrad"), minigrad), probe)
    run = observe(trial, loss)
    assert run.failure is None, run.failure
    return msgspec.structs.replace(
        run, measured={KINKS.name: measure_kinks(trial, run)}, reached=[0]
    )


def outcome(key: Run, **gradients: Any) -> Outcome:
    """The judgement of a run that equals the clean one except for these gradients."""
    packed = {name: pack(gradient) for name, gradient in gradients.items()}
    changed = {**key.gradients, **packed}
    return judge(msgspec.structs.replace(key, gradients=changed, measured={}), key).outcome


RELU = "a=[-1.0, 0.0, 2.0] -> a.relu()"
ABS = "a=[-1.0, 0.0, 2.0] -> a.abs()"
CLAMP = "a=[-1.0, 0.5, 1.0, 3.0] -> a.clamp(-1.0, 1.0)"
LARGEST = "a=[2.0, 2.0, 1.0] -> a.max()"
ROWS = "a=[[2.0, 2.0], [3.0, 3.0], [1.0, 5.0]] -> a.amax(1)"
THREE = "a=[[1.0, 2.0, 2.0, 2.0]] -> a.amax(1)"
DISTANCE = "a=[1.0, 2.0], b=[1.0, 5.0] -> (a - b).abs()"
LENGTHS = "a=[[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]] -> a.norm(dim=1)"
"""For a row of zeros, every vector of length up to 1 is a valid gradient."""
FURTHEST = "a=[0.0, 0.0] -> a.abs().max()"
SINKS = "a=[0.0, 1.0] -> (1.0 - (-a).exp()).abs()"
RISES = "a=[0.0, -1.0] -> (a.exp() - 1.0).abs()"
"""Near 0, the slopes of the first are smaller than at 0, and those of the second larger."""
HIDDEN = "a=[1.0, 3.0] -> (2.0 * a - 2.0).relu()"
"""The leaf does not show that the hidden unit is at 0."""


@pytest.mark.parametrize(
    ("probe", "gradient", "expected"),
    [
        (RELU, [0, 1, 1], "convention"),
        (RELU, [0, 0.3, 1], "convention"),
        (RELU, [0, 1, 1.001], "silent-corruption"),
        (RELU, [0, 0, 1.001], "silent-corruption"),
        (RELU, [1e-9, 1, 1], "silent-corruption"),
        (RELU, [0, 1.001, 1], "silent-corruption"),
        (RELU, [0, -1e-6, 1], "silent-corruption"),
        (RELU, [0, np.nan, 1], "silent-corruption"),
        (RELU, [0, np.inf, 1], "silent-corruption"),
        (ABS, [-1, 1, 1], "convention"),
        (ABS, [-1, -0.3, 1], "convention"),
        (ABS, [-1, 1.001, 1], "silent-corruption"),
        (ABS, [1, 0, 1], "silent-corruption"),
        (CLAMP, [0, 1, 0, 0], "convention"),
        (CLAMP, [0, 1.001, 0, 0], "silent-corruption"),
        (CLAMP, [1, 1, 1, 1e-3], "silent-corruption"),
        (LARGEST, [1, 0, 0], "convention"),
        (LARGEST, [0.3, 0.7, 0], "convention"),
        (LARGEST, [0.5, 0.501, 0], "silent-corruption"),
        (LARGEST, [1, 1, 0], "silent-corruption"),
        (LARGEST, [0.5, 0.5, 0.1], "silent-corruption"),
        (LARGEST, [0, 0, 0], "silent-corruption"),
        (ROWS, [[1, 0], [0, 1], [0, 1]], "convention"),
        (ROWS, [[1, 1], [0, 0], [0, 1]], "silent-corruption"),
        (ROWS, [[1, 0], [0, 0.999], [0, 1]], "silent-corruption"),
        (ROWS, [[1, 0], [0, 1], [0, 1.001]], "silent-corruption"),
        (THREE, [[0, 0, 1, 0]], "convention"),
        (THREE, [[0, 0.2, 0.3, 0.5]], "convention"),
        (THREE, [[0, 1, 1, 0]], "silent-corruption"),
        (THREE, [[0, 0.2, 0.3, 0.4]], "silent-corruption"),
        (LENGTHS, [[1, 0], [0.6, 0.8], [0, -1]], "convention"),
        (LENGTHS, [[0.7, 0.7], [0.6, 0.8], [-0.7, 0.7]], "convention"),
        (LENGTHS, [[1, 1], [0.6, 0.8], [0, 0]], "silent-corruption"),
        (LENGTHS, [[0.7, 0.7], [0.6, 0.8], [-0.72, 0.72]], "silent-corruption"),
        (FURTHEST, [0, -1], "convention"),
        (FURTHEST, [0.5, -0.5], "convention"),
        (FURTHEST, [1, 1], "silent-corruption"),
        (SINKS, [1, np.exp(-1)], "convention"),
        (SINKS, [-1, np.exp(-1)], "convention"),
        (SINKS, [1.0001, np.exp(-1)], "silent-corruption"),
        (RISES, [1, -np.exp(-1)], "convention"),
        (RISES, [-1, -np.exp(-1)], "convention"),
        (RISES, [-1.0001, -np.exp(-1)], "silent-corruption"),
        (HIDDEN, [2, 2], "convention"),
        (HIDDEN, [2.002, 2], "silent-corruption"),
        (HIDDEN, [0, 2.002], "silent-corruption"),
    ],
)
def test_a_choice_is_valid_only_in_an_entry_at_a_kink_and_between_its_slopes(
    probe: str, gradient: Any, expected: Outcome
) -> None:
    assert outcome(key_of(probe), a=np.array(gradient, float)) == expected


def test_two_leaves_that_are_tied_choose_together() -> None:
    key = key_of(DISTANCE)
    assert outcome(key, a=[1.0, -1.0], b=[-1.0, 1.0]) == "convention"
    assert outcome(key, a=[1.0, -1.0], b=[0.0, 1.0]) == "silent-corruption"
    assert outcome(key, a=[1.0, -1.001], b=[-1.0, 1.0]) == "silent-corruption"


def test_the_slopes_are_those_of_the_loss() -> None:
    key = key_of(ABS, "weighted")
    assert key.cotangent is not None
    weight = key.cotangent.numpy()
    assert outcome(key, a=weight * [-1.0, 1.0, 1.0]) == "convention"
    assert outcome(key, a=weight * [-1.0, 1.001, 1.0]) == "silent-corruption"
    smooth = key_of("a=[0.0, 1.0] -> a.relu() - (-a).relu()")
    assert outcome(smooth, a=[2.0, 1.0]) == "silent-corruption"


def test_entries_that_only_a_smooth_function_combines_choose_alone() -> None:
    a, w, v = np.zeros(8), np.tile([1.0, -1.0], 4), np.repeat([1.0, -1.0], 4)
    leaves = ", ".join(
        f"{name}={leaf.tolist()}" for name, leaf in zip("awv", (a, w, v), strict=True)
    )
    key = key_of(f"{leaves} -> (((a * w).relu() * v).sum() + 1.0) ** 2")
    for chosen in np.random.default_rng(0).choice([0.0, 1.0], (20, 8)):
        assert outcome(key, a=2 * w * v * chosen, w=a, v=a) == "convention"


SMOOTH = [
    "a=[1.0, 2.0] -> a * a",
    "a=[0.0, 1e-3] -> (a * 1e5).sigmoid()",
    "a=[0.0, 1e-6] -> (a * a + 1e-12).sqrt()",
    "a=[0.0, 1e-7] -> ((a * 1e6).exp() + 1.0).log() / 1e6",
    "a=[3e-6, -3e-6] -> a.relu()",
    "a=[0.0, 4.0] -> a.clamp(1.0).sqrt()",
    "a=[[1.0, 1.001, 1.003]] -> (a - a.mean(1, keepdim=True))"
    " / (((a - a.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) + 1e-5).sqrt()",
    "a=[[1.0, 2.0, 3.0]] -> a.softmax(1)",
]


@pytest.mark.parametrize("probe", SMOOTH)
@pytest.mark.parametrize("loss", ["uniform", "weighted"])
def test_a_smooth_function_has_no_choice_however_much_it_bends(probe: str, loss: Loss) -> None:
    key = key_of(probe, loss)
    assert not key.measured[KINKS.name].values
    gradient = key.gradients["a"]
    assert gradient is not None
    wrong = gradient.numpy() * 1.001 + (1e-3 if loss == "uniform" else 0.0)
    assert outcome(key, a=wrong) == "silent-corruption"


def test_single_precision_has_kinks_too() -> None:
    key = key_of("a: np.float32 = [-1.0, 0.0, 2.0] -> (a * 0.7).relu()")
    half = np.float32([0, 0.35, 0.7])
    assert outcome(key, a=half) == "convention"
    assert outcome(key, a=half * np.float32([1, 1, 1.001])) == "silent-corruption"
    assert outcome(key, a=np.float32([0, 0.701, 0.7])) == "silent-corruption"


def test_another_difference_is_never_excused_by_a_kink() -> None:
    key = key_of(RELU)
    choice = {"a": pack([0.0, 1.0, 1.0])}
    run = msgspec.structs.replace(key, gradients=choice)
    assert judge(run, key).outcome == "convention"
    for change in ({"output": pack([0.0, 0.0, 2.1])}, {"shared": [("a.grad", "a")]}):
        assert judge(msgspec.structs.replace(run, **change), key).outcome == "silent-corruption"
    assert outcome(key, a=[[0.0, 1.0, 1.0]]) == "silent-corruption"
    assert judge(msgspec.structs.replace(key, gradients={"a": None}), key).kind == "value"


def test_the_evidence_shows_the_wrong_entry_and_not_the_choice() -> None:
    key = key_of("a=[0.0, 1.0, 2.0, 3.0, 4.0] -> a.relu()")
    wrong = msgspec.structs.replace(key, gradients={"a": pack([1.0, 1.0, 1.0, 1.001, 1.0])})
    evidence = str(judge(wrong, key).evidence)
    assert evidence == "a.grad[3] is 1.001, expected 1 (1 of 5 entries are wrong)"


def test_of_many_entries_those_at_a_kink_are_examined() -> None:
    values = np.ones(300)
    values[255] = 0.0
    choice = np.ones(300)
    key = key_of(f"a={values.tolist()} -> a.relu()")
    assert outcome(key, a=choice) == "convention"
    choice[3] = 1.001
    assert outcome(key, a=choice) == "silent-corruption"


def test_of_many_entries_at_kinks_fifty_are_examined() -> None:
    key = key_of(f"a={[0.0] * 60} -> a.relu()")
    assert key.measured[KINKS.name].values["entries"].shape == (50,)


# ----- Any probe -----

LEFT = {"abs": -1.0, "relu": 0.0}
"""The slope to the left of 0; to the right it is 1."""

VALUES = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 3.0]), min_size=1, max_size=6)


@examples(60)
@given(st.sampled_from(sorted(LEFT)), VALUES, st.data())
def test_every_mixture_of_the_slopes_is_a_choice_at_0_and_nowhere_else(
    name: str, values: list[float], data: st.DataObject
) -> None:
    key, left = key_of(f"a={values} -> a.{name}()"), LEFT[name]
    at = np.array(values) == 0
    slopes = np.where(np.array(values) < 0, left, 1.0)
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=at.size, max_size=at.size)))
    gradient = np.where(at, left + weights * (1 - left), slopes)
    assert outcome(key, a=gradient) in ("convention", "disguised-correct")
    index = data.draw(st.integers(0, at.size - 1))
    factor = data.draw(st.sampled_from([1.001, 0.999, 1.1, -1.0, 7.0]))
    wrong = gradient.copy()
    wrong[index] = (1.0 if at[index] else (gradient[index] or 1.0)) * factor
    is_valid = at[index] and left <= wrong[index] <= 1.0
    expected = ("convention", "disguised-correct") if is_valid else ("silent-corruption",)
    assert outcome(key, a=wrong) in expected


@examples(40)
@given(st.integers(2, 6), st.integers(0, 3), st.data())
def test_a_tie_shares_one_gradient(tied: int, others: int, data: st.DataObject) -> None:
    values = [2.0] * tied + [1.0] * others
    key = key_of(f"a={values} -> a.max()")
    parts = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=tied, max_size=tied)))
    shares = np.concatenate([parts / parts.sum(), np.zeros(others)])
    assert outcome(key, a=shares) in ("convention", "disguised-correct")
    factor = data.draw(st.sampled_from([1.001, 0.999, 2.0, 0.0]))
    assert outcome(key, a=shares * factor) == "silent-corruption"
    if others:
        shares[-1] = 1e-3
        assert outcome(key, a=shares) == "silent-corruption"
