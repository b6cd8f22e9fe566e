"""Conditioning: a difference caused by the last digits of the inputs is not a bug."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

import minigrad
from harness.answer_key.outcome import IS_ROUNDING, Judgement, judge
from harness.answer_key.perturbation import measure
from harness.answer_key.tolerances import CONDITIONING, TIMES, ill_conditioned, movements
from harness.check.controls import variants
from harness.core.run import Measured, Run, pack
from harness.core.vocabulary import LOSSES, Loss
from harness.engines.engine import Dialect, Engine, find_engine
from harness.engines.library import Library
from harness.experiment.baseline import Baseline, OpenContext, RunId
from harness.grade.probes import prepare_bare
from harness.pages.probe import read_probes
from harness.runs.cache import open_cache
from harness.runs.observer import observe
from harness.runs.trial import Trial
from tests.harness.answer_key.reassociation import reassociated, slightly_wrong
from tests.harness.bundled import CATALOGUE

BASELINE = Baseline(open_cache(), ())
SHARED = tuple(CATALOGUE.shared_probes.values())


def key_of(text: str, loss: Loss | None = "uniform") -> Run:
    """The clean run of the only probe in a text, with its conditioning."""
    (probe,) = read_probes(text, "p.py")
    trial = Trial(Library(Dialect(module="minigrad"), minigrad), probe)
    run = observe(trial, loss if probe.kind == "gradient" else None)
    assert run.failure is None, run.failure
    measured = {CONDITIONING.name: measure(trial, run)}
    return msgspec.structs.replace(run, measured=measured, reached=[0])


def expression(leaves: str, result: str, loss: Loss = "uniform") -> Run:
    return key_of(
        f"import numpy as np\ndef p(lib, {leaves}):\n    'doc'\n    return {result}\n", loss
    )


# ----- What moves -----


@pytest.mark.parametrize(
    ("leaves", "result"),
    [
        ("a=(3,), b=(4, 3)", "a * b"),
        ("a=(3, 4)", "a.softmax(-1)"),
        ("a: np.float32 = (3, 4), b=(4, 2)", "a @ b"),
        ("a: np.float16 = (6,)", "a.sigmoid()"),
        ("a=[0.0, 0.0]", "a.norm()"),
        ("a=[0.0]", "1.0 / (a + 1e-9)"),
        ("a=[1e-310]", "a - 5e-311"),
        ("a=[2.0, 2.0, 1.0]", "a.max()"),
        ("a=[1.0, 1.0, 0.0]", "(a[:2] - 1.0).abs()"),
    ],
)
def test_nothing_moves_in_ordinary_probes_at_kinks_and_at_zeros(leaves: str, result: str) -> None:
    for loss in LOSSES:
        measured = expression(leaves, result, loss).measured[CONDITIONING.name]
        assert measured == Measured()


def test_an_array_that_moves_is_measured_by_its_largest_difference() -> None:
    moving = movements(expression("a=[1e8, 100000001.0]", "(a - 1e8) * 1e8"))
    assert moving == {"output": pytest.approx(1e8 * np.spacing(1e8), rel=0.5)}


def test_a_leaf_moves_by_a_unit_of_its_own_dtype() -> None:
    moving = movements(expression("a: np.float32 = [1e4, 10001.0]", "(a - 1e4) * 1e4"))
    assert moving == {"output": pytest.approx(1e4 * np.spacing(np.float32(1e4)), rel=0.5)}


def test_entries_of_one_leaf_never_all_move_in_one_direction() -> None:
    for size in range(2, 7):
        values = [1e3 + n / 8 for n in range(size)]
        assert "output" in movements(expression(f"a={values}", "(a - a.mean()) * 1e3"))


def test_a_change_of_shape_is_infinite() -> None:
    key = expression("a=[0.1, 0.2, 0.3]", "a[a.data >= np.array([0.1, 0.2, 0.3])]")
    assert movements(key)["output"] == math.inf
    other = msgspec.structs.replace(key, output=pack([0.3]), measured={})
    assert judge(other, key).outcome == "disguised-correct"
    assert judge(other, stripped(key)).outcome == "silent-corruption"


DRAWN = """
import numpy as np


def p(lib):
    'doc'
    rng = np.random.default_rng(0)
    x = 1e9 + rng.standard_normal(4)
    count = int(rng.integers(3, 4))
    for _ in range(count):
        yield {"spread": x - x.mean(), "count": count}
"""


def test_what_a_probe_draws_moves_too_and_the_generator_is_put_back() -> None:
    before = np.random.default_rng
    assert not movements(key_of(DRAWN))  # the sum rounds what has moved
    close = DRAWN.replace("1e9 + rng.standard_normal(4)", "rng.uniform(1e9, 1e9 + 1, 4)")
    assert {name.split()[1] for name in movements(key_of(close))} == {"spread"}
    assert np.random.default_rng is before


def test_a_log_that_ends_at_another_step_moves_the_number_of_steps() -> None:
    stops = "x = rng.uniform(1e9, 1e9 + 1)\n    for step in range(3 if x == X else 2):"
    x = np.random.default_rng(0).uniform(1e9, 1e9 + 1)
    text = f"""
import numpy as np


def p(lib):
    'doc'
    rng = np.random.default_rng(0)
    {stops.replace("X", repr(float(x)))}
        yield {{"step": step}}
"""
    key = key_of(text)
    assert movements(key) == {"steps": math.inf, "2 step": math.inf}
    shorter = msgspec.structs.replace(key, log=key.log[:2], measured={})
    assert judge(shorter, key).outcome == "disguised-correct"
    assert judge(shorter, stripped(key)).outcome == "silent-corruption"


@pytest.mark.parametrize(
    ("factor", "problem"),
    [
        ("np.random.standard_normal(2)", "it draws from NumPy's global generator"),
        ("next(COUNT)", "it gives different numbers each time"),
    ],
)
def test_a_probe_that_does_not_repeat_is_not_measured(factor: str, problem: str) -> None:
    text = f"""
import itertools
import numpy as np

COUNT = itertools.count(1)


def p(lib, a=(2,)):
    'doc'
    return a * {factor}
"""
    assert key_of(text).measured[CONDITIONING.name].problem == problem


# ----- The judge -----


def stripped(key: Run) -> Run:
    """The run without what was measured."""
    return msgspec.structs.replace(key, measured={})


def with_output(key: Run, output: Any) -> Run:
    return msgspec.structs.replace(key, output=pack(output), measured={})


def test_only_differences_beyond_the_conditioning_error_are_reported() -> None:
    key = expression("a=[1e8, 100000001.0]", "(a - 1e8) * 1e8")
    assert key.output
    error, output = movements(key)["output"], key.output.numpy()
    judged = judge(with_output(key, output + TIMES * error / 2), key)
    assert (judged.outcome, judged.evidence) == ("disguised-correct", IS_ROUNDING)
    assert judge(with_output(key, output + TIMES * error * 2), key).outcome == "silent-corruption"
    assert judge(with_output(key, output), key).evidence != IS_ROUNDING
    assert judge(with_output(key, np.float32(output)), key).kind == "dtype"


def test_the_tolerance_of_an_array_that_does_not_move_stays() -> None:
    """One array of a run may move while another does not."""
    key = expression("a=[1e8, 100000001.0], b=[1.0, 2.0]", "(a - 1e8) * 1e8 + b")
    gradient = key.gradients["b"]
    assert gradient is not None
    assert set(movements(key)) == {"output"}
    wrong = {**key.gradients, "b": pack(gradient.numpy() + 1e-12)}
    other = msgspec.structs.replace(key, gradients=wrong, measured={})
    assert judge(other, key).outcome == "silent-corruption"


# ----- Ill-conditioned probes -----

BIAS = """
import numpy as np


def train_a_bias_before_a_batch_norm(lib):
    'doc'
    rng = np.random.default_rng(1)
    x = lib.tensor(rng.standard_normal((4, 3)))
    norm = lib.nn.BatchNorm1d(4)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4, rng=rng), norm, lib.nn.Linear(4, 1, rng=rng))
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = ((model(x) - 1.0) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield {"loss": loss, "bias": model.layers[0].bias}
"""
"""The true gradient of the bias is 0."""


def test_adam_on_a_true_gradient_of_0_is_ill_conditioned() -> None:
    ill = ill_conditioned(key_of(BIAS))
    assert {name.split()[1] for name in ill} == {"bias", "Linear[0].bias"}  # logged, and created
    assert not ill_conditioned(key_of(BIAS.replace("Adam", "SGD")))
    assert not ill_conditioned(
        key_of(
            BIAS.replace("Linear(3, 4, rng", "Linear(3, 4, bias=False, rng").replace(
                "layers[0].bias", "layers[0].weight"
            )
        )
    )


@pytest.mark.parametrize(
    ("leaves", "result"),
    [
        ("a=[1.0, 1.0, 1.0]", "a.log()"),  # 0 without an error: it has no digits
        ("a=[1000.0, 1001.0, 999.0]", "a.softmax(-1)"),
        ("a=[[2.0, 2.0, 2.0]]", "lib.nn.LayerNorm(3)(a)"),
    ],
)
def test_a_result_that_loses_a_few_digits_is_not_ill_conditioned(leaves: str, result: str) -> None:
    for loss in LOSSES:
        key = expression(leaves, result, loss)
        assert movements(key)
        assert not ill_conditioned(key)


def test_a_variance_far_from_zero_is_ill_conditioned() -> None:
    key = expression("a=[100000001.0, 100000002.0, 100000006.0]", "a.var()")
    assert "output" in ill_conditioned(key)


# ----- The shared probes -----


def test_no_shared_probe_is_ill_conditioned() -> None:
    assert BASELINE.ill_conditioned(find_engine(), SHARED) == {}


VARIANTS = variants(OpenContext(CATALOGUE, find_engine(), BASELINE))


@pytest.mark.slow
@pytest.mark.parametrize("page", VARIANTS, ids=lambda page: page.id)
def test_no_shared_probe_is_ill_conditioned_on_a_variant(page: Any) -> None:
    engine = find_engine()
    variant = prepare_bare(page, SHARED, OpenContext(CATALOGUE, engine, BASELINE)).broken
    reaching = {step.probe for step in BASELINE.reaching(engine, variant.sources, SHARED)}
    probes = [probe for index, probe in enumerate(SHARED) if index in reaching]
    assert BASELINE.ill_conditioned(variant, probes) == {}


def judged(engine: Engine, keys: Mapping[RunId, Run]) -> dict[RunId, Judgement]:
    """The judgements on an engine whose every run counts as changed, on all shared probes."""
    judgements = {}
    for run in BASELINE.broken(find_engine(), engine, SHARED):
        pair = run.probe, run.loss
        siblings = [keys[other] for other in keys if other[0] == pair[0] and other != pair]
        changed = msgspec.structs.replace(run, reached=[0])
        judgements[pair] = judge(changed, keys[pair], siblings)
    return judgements


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
def test_another_order_of_operations_is_never_a_corruption(seed: int) -> None:
    engine, count = reassociated(find_engine(), seed)
    judgements = judged(engine, BASELINE.clean_runs(find_engine(), SHARED))
    assert count > 20
    assert {j.outcome for j in judgements.values()} == {"disguised-correct"}, {
        pair: str(j.evidence) for pair, j in judgements.items() if j.outcome != "disguised-correct"
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_an_error_of_a_millionth_has_the_same_outcomes_as_without_the_measurement(
    seed: int,
) -> None:
    keys = BASELINE.clean_runs(find_engine(), SHARED)
    engine, code = slightly_wrong(find_engine(), seed)
    strict = judged(engine, {pair: stripped(key) for pair, key in keys.items()})
    actual = judged(engine, keys)
    assert {pair: j.outcome for pair, j in actual.items()} == {
        pair: j.outcome for pair, j in strict.items()
    }, code
