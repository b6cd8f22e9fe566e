"""The diagnostics of trainings and layers: against wrong engines, right ones, and themselves."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.vocabulary import Alarm, Declined, Silent, Verdict
from harness.diagnostics import Diagnostic, Observation, evaluate
from harness.diagnostics import mode as rules
from harness.diagnostics.checkpoint import CHECKPOINT
from harness.diagnostics.crash import CRASH
from harness.diagnostics.loss_falls import LOSS_FALLS
from harness.diagnostics.mode import MODE, Scenario
from harness.diagnostics.training_log import TRAINING_LOG
from harness.diagnostics.trajectory import TRAJECTORY, compare_logs
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.pages.probe import Probe, read_probes
from harness.runs.cache import open_cache
from harness.runs.isolated import run_isolated
from tests.harness.bundled import CATALOGUE
from tests.harness.diagnostics.logs import log_of
from tests.harness.diagnostics.wrong_engines import edit, engine_with
from tests.harness.tiny import TINY, tiny_job
from tests.harness.verdicts import alarm, declined, in_english, skipped

CHECKED = (TRAJECTORY, MODE, CHECKPOINT, TRAINING_LOG, LOSS_FALLS)
FILES = ("optimizers.py", "modes.py", "checkpoints.py", "training.py", "data.py")

SHARED = {
    name: probe for name, probe in CATALOGUE.shared_probes.items() if Path(probe.path).name in FILES
}
WATCHED = [probe for probe in SHARED.values() if probe.kind != "gradient" and not probe.refused]


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    """It knows what PyTorch gives, if that is installed."""
    baseline = Baseline(open_cache(), CHECKED)
    if find_spec("torch"):
        baseline.clean(find_engine(), WATCHED)
    return baseline


def verdict(baseline: Baseline, diagnostic: Diagnostic, probe: str, change: str) -> Verdict:
    engine = engine_with(change)
    return baseline.clean(engine, [SHARED[probe]])[probe, None].verdicts[diagnostic.name]


# ----- On engines -----

VARIANTS = "float32-data", "abs-subgrad-one", "accumulate-in-place"


@pytest.mark.parametrize(
    "change",
    [
        *("no-op", "adam-eps-inside-sqrt", "bn-biased-running-var"),
        # `harness matrix` runs these as controls.
        *(pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS),
        pytest.param(edit("clip_grad_norm_", "total + 1e-6", "total"), id="no-eps-in-clipping"),
    ],
)
def test_silent_on_every_correct_engine_and_shared_probe(baseline: Baseline, change: str) -> None:
    pytest.importorskip("torch")
    observed = baseline.clean(engine_with(change), WATCHED)
    assert {
        pair: result.run.failure for pair, result in observed.items() if result.run.failure
    } == {}
    alarms = {
        (pair[0], name): str(verdict.message)
        for pair, result in observed.items()
        for name, verdict in result.verdicts.items()
        if isinstance(verdict, Alarm)
    }
    assert alarms == {}
    for diagnostic in CHECKED:
        verdicts = [result.verdicts[diagnostic.name] for result in observed.values()]
        assert any(isinstance(verdict, Silent) for verdict in verdicts), diagnostic.name
    for pair, result in observed.items():
        assert any(isinstance(verdict, Silent) for verdict in result.verdicts.values()), pair


BATCH_NORM = "BatchNorm1d._batch_statistics"
RUNNING_MEAN = "(1 - self.momentum) * self.running_mean + self.momentum * mean.data"
RUNNING_VAR = "(1 - self.momentum) * self.running_var + self.momentum * unbiased"
MOMENTUM_OF_VARIANCE_SWAPPED = edit(
    BATCH_NORM, RUNNING_VAR, "self.momentum * self.running_var + (1 - self.momentum) * unbiased"
)
WEIGHT_MOVES = edit(
    BATCH_NORM, "count = len(x)", "count = len(x)\nself.weight.data = self.weight.data * 0.9"
)
OTHER_MOMENTUM = edit("BatchNorm1d.__init__", "float(momentum)", "0.9")
VELOCITY_FORGOTTEN = edit("SGD", 'remembers = ("velocity",)', "remembers = ()")
P_IS_KEPT = edit("Dropout.__init__", "self.p = p", "self.p = 1 - p")
SHARE_OF_P_KEPT = edit("Dropout.forward", "rng >= self.p", "rng < self.p").replace(
    "rng", "self.rng.random(x.shape)"
)
NEGATED = edit("layer_ops.py::dropout", "a * kept / (1 - p)", "-a * kept / (1 - p)")
STATISTICS_DECAY = edit(
    "BatchNorm1d.forward",
    "mean, variance = Tensor(widened(self.running_mean)), $var",
    "self.running_mean = 0.9 * self.running_mean\n"
    "mean, variance = Tensor(widened(self.running_mean)), $var",
)
ROW_LOSES_ITS_AXIS = edit(
    "LayerNorm.forward", "return $out", "out = $out\nreturn out if len(out) > 1 else out[0]"
)
BUFFERS_FORGOTTEN = edit("Module.load_state_dict", "part[...] = state[name]", "pass")
MOMENTS_IN_FLOAT32 = edit("Optimizer.load_state_dict", "array.dtype", "np.float32")
NEVER_CLIPS = edit("clip_grad_norm_", "min(1.0, max_norm / (total + 1e-6))", "1.0")
STEPS_IN_PLACE = edit(
    "SGD.step", "parameter.data = parameter.data + $step", "parameter.data += $step"
)

CAUGHT = [
    (TRAJECTORY, "sgd-momentum", "sgd-wd-sign", "at step 1, loss is"),
    (TRAJECTORY, "sgd-momentum", "sgd-ascent", "at step 1, loss is"),
    (TRAJECTORY, "two-backwards-one-step", "no-zero-grad-in-loop", "at step 1, grad_norm is"),
    (TRAJECTORY, "adam", "adam-no-bias-correction", "at step 1, loss is"),
    (TRAJECTORY, "adam", "adam-v-no-square", "at step 1, loss is"),
    (TRAJECTORY, "adamw", "adamw-coupled-l2", "at step 1, loss is"),
    (TRAJECTORY, "clip-gradients", "clip-no-sqrt", "at step 0, grad_norm is"),
    (TRAJECTORY, "warmup-cosine", "warmup-from-zero", "at step 1, loss is"),
    (
        *(TRAJECTORY, "batch-norm-running-mean", "bn-momentum-swapped"),
        "at step 0, layer.running_mean differs",
    ),
    (
        *(TRAJECTORY, "resume-momentum", VELOCITY_FORGOTTEN),
        "at step 3, w differs from PyTorch's by up to",
    ),
    (CHECKPOINT, "resume-training", "resume-without-moments", "at step 3"),
    (CHECKPOINT, "resume-training", "checkpoint-forgets-generators", "at step 3"),
    (CHECKPOINT, "resume-training", "schedule-starts-anew", "loss at step 3"),
    (CHECKPOINT, "resume-training", BUFFERS_FORGOTTEN, "running_mean at step 3"),
    (CHECKPOINT, "resume-training", MOMENTS_IN_FLOAT32, "at step 3"),
    (
        *(CHECKPOINT, "resume-momentum", VELOCITY_FORGOTTEN),
        "resumed at step 3, the training differs from the uninterrupted one: "
        "w at step 3 differs by up to",
    ),
    (TRAINING_LOG, "sgd-momentum", "sgd-ascent", "the loss goes from"),
    (TRAINING_LOG, "sgd-momentum", "sgd-rebind-param", "the loss is 64"),
    (
        *(TRAINING_LOG, "clip-gradients", NEVER_CLIPS),
        "step 0: a gradient of 14 is clipped to 14, expected 6",
    ),
    (*(TRAINING_LOG, "clip-gradients", "clip-no-sqrt"), "step 0: a gradient of 195 is clipped to"),
    (TRAINING_LOG, "warmup-cosine", "warmup-from-zero", "step 0 changes no parameter"),
    (*(TRAINING_LOG, "accumulate-micro-batches", "grad-accum-mean-of-means"), "loss_error is"),
    (TRAINING_LOG, "step-between-two-backwards", STEPS_IN_PLACE, "gradient_error is"),
    (TRAINING_LOG, "train-classifier", "zero-init", "layers.0.weight never changes"),
    (TRAINING_LOG, "train-classifier", "init-100x", "but guessing would cost 1.1"),
    (TRAINING_LOG, "train-classifier", "linear-bias-not-param", "layers.0.bias never changes"),
    (TRAINING_LOG, "train-classifier", "xent-sum-not-mean", "but guessing would cost 1.1"),
    (TRAINING_LOG, "train-classifier", "xent-sign", "loss is -"),
    (TRAINING_LOG, "train-deep-residual", "residual-removed", "grad_norm_first is"),
    (
        *(TRAINING_LOG, "batch-norm-running-mean", "bn-no-running-update"),
        "running_mean never changes",
    ),
    (TRAINING_LOG, "batch-norm-first-batch", "bn-momentum-swapped", "mean_error is"),
    (*(TRAINING_LOG, "batch-norm-first-batch", MOMENTUM_OF_VARIANCE_SWAPPED), "variance_error is"),
    (TRAINING_LOG, "batch-norm-first-batch", OTHER_MOMENTUM, "mean_error is"),
    (TRAINING_LOG, "dropout-share", P_IS_KEPT, "share_error is 0.5"),
    (TRAINING_LOG, "dropout-share", "dropout-no-inverse-scale", "scale_error is 0.25"),
    (TRAINING_LOG, "batches-of-an-epoch", "loss-shuffled-labels", "pairing_error is"),
    (TRAINING_LOG, "worker-draws", "worker-same-seed", "repeated_error is"),
]


@pytest.mark.parametrize(("diagnostic", "probe", "change", "says"), CAUGHT)
def test_a_diagnostic_catches_and_names_where(
    baseline: Baseline, diagnostic: Diagnostic, probe: str, change: str, says: str
) -> None:
    if diagnostic is TRAJECTORY:
        pytest.importorskip("torch")
    result = verdict(baseline, diagnostic, probe, change)
    assert isinstance(result, Alarm)
    assert says in str(result.message)


@pytest.mark.parametrize(
    ("diagnostic", "probe", "change"),
    [
        (MODE, "module-batch-norm", "bn-momentum-swapped"),  # how fast statistics move
        (MODE, "module-dropout", P_IS_KEPT),  # how much is dropped
        (CHECKPOINT, "resume-training", "adam-v-no-square"),  # wrong with and without a stop
        (TRAINING_LOG, "sgd-momentum", "sgd-wd-sign"),  # a training that goes well elsewhere
        (LOSS_FALLS, "sgd-momentum", "sgd-wd-sign"),
    ],
)
def test_a_diagnostic_is_blind(
    baseline: Baseline, diagnostic: Diagnostic, probe: str, change: str
) -> None:
    assert isinstance(verdict(baseline, diagnostic, probe, change), Silent)


def test_trajectory_says_which_word_pytorch_does_not_have(baseline: Baseline) -> None:
    pytest.importorskip("torch")
    result = verdict(baseline, TRAJECTORY, "train-classifier", "init-100x")
    assert isinstance(result, Declined)
    assert "torch cannot run this probe" in str(result.reason)
    assert "'rng'" in str(result.reason)


def test_checkpoint_declines_a_training_that_never_stops(baseline: Baseline) -> None:
    assert in_english(verdict(baseline, CHECKPOINT, "adam", "no-op")) == skipped(
        "the probe never saves and resumes: it has no `resume_at`"
    )


MODE_ROWS: list[tuple[Callable[[Scenario], str | None], str, str, str]] = [
    (rules.flags_follow, "module-nested", "eval-not-recursive", "eval() does not reach 5"),
    (
        *(rules.evaluation_is_deterministic, "module-dropout", "dropout-always-on"),
        "two different outputs",
    ),
    (
        *(rules.evaluation_changes_nothing, "module-batch-norm", STATISTICS_DECAY),
        "changes state.running_mean",
    ),
    (rules.rows_stand_alone, "module-layer-norm", "layernorm-batch-axis", "other rows"),
    (
        *(rules.rows_stand_alone, "module-layer-norm", ROW_LOSES_ITS_AXIS),
        "a row gives (3,) alone, but (1, 3) in its batch",
    ),
    (rules.training_comes_back, "module-dropout", "eval-sets-dropout-forever", "stays in"),
    (
        *(rules.training_moves_statistics_alone, "module-sequential", "bn-no-running-update"),
        "state.layers.2.running_mean does not move",
    ),
    (
        *(rules.training_moves_statistics_alone, "module-batch-norm", WEIGHT_MOVES),
        "a forward pass changes state.weight",
    ),
    (
        *(rules.statistics_approach_the_batch, "module-batch-norm"),
        *(edit(BATCH_NORM, RUNNING_MEAN, RUNNING_MEAN.replace("+", "-")),),
        "state.running_mean moves away from that of the batch",
    ),
    (
        *(rules.statistics_approach_the_batch, "module-batch-norm"),
        *(edit(BATCH_NORM, RUNNING_VAR, RUNNING_VAR.replace("+", "-")),),
        "state.running_var moves away",
    ),
    (rules.what_is_dropped_changes, "module-dropout", "dropout-same-mask", "the same elements"),
    (
        *(rules.training_keeps_the_mean, "module-dropout", "dropout-no-inverse-scale"),
        "the output in training is 0.7",
    ),
    (
        *(rules.training_keeps_the_mean, "module-dropout", SHARE_OF_P_KEPT),
        "the output in training is 0.3",
    ),
    (rules.training_keeps_the_mean, "module-dropout", NEGATED, "-0.99"),
]


@pytest.mark.parametrize(("rule", "probe", "change", "says"), MODE_ROWS)
def test_mode_catches_what_confuses_the_two(
    baseline: Baseline, rule: Callable[[Scenario], str | None], probe: str, change: str, says: str
) -> None:
    result = baseline.clean(engine_with(change), [SHARED[probe]])[probe, None]
    found = result.verdicts["mode"]
    assert isinstance(found, Alarm)
    assert says in str(found.message)
    assert rule(rules.read_scenario(result.run)) == found.message


def test_every_rule_about_modes_has_an_engine_that_breaks_it() -> None:
    assert {row[0] for row in MODE_ROWS} == set(rules.RULES)


def test_a_layer_that_raises_on_its_way_is_a_crash(baseline: Baseline) -> None:
    probe = SHARED["module-batch-norm"]
    result = baseline.clean(engine_with("bn-always-batch-stats"), [probe])[probe.name, None]
    crash = evaluate(CRASH, Observation(probe, result.run, {}))
    assert isinstance(crash, Alarm)
    assert "in eval, first row: a batch of one row" in str(crash.message)
    assert in_english(result.verdicts["mode"]) == skipped(
        "the run crashed, so there is nothing to check"
    )


# ----- trajectory, on logs -----


def test_trajectory_looks_at_every_shape_of_a_step_before_any_value() -> None:
    actual = log_of({"loss": 1.0, "w": [0.0]}, {"loss": 5.0, "w": [[0.0]]})
    theirs = log_of({"loss": 1.0, "w": [0.0]}, {"loss": 0.5, "w": [0.0]})
    expected = alarm("at step 1, w has shape (1, 1), PyTorch's has (1,)")
    assert in_english(compare_logs(actual, theirs)) == expected


def test_trajectory_shows_both_numbers_or_how_far_two_arrays_are_apart() -> None:
    theirs = log_of({"loss": 0.5, "w": [1.0, 2.0]})
    for actual, difference in (
        ({"loss": 0.25, "w": [1.0, 2.0]}, "loss is 0.25, PyTorch's is 0.5"),
        ({"loss": 0.5, "w": [1.5, 2.0]}, "w differs from PyTorch's by up to 0.5"),
    ):
        result = compare_logs(log_of(actual), theirs)
        assert isinstance(result, Alarm)
        assert str(result.message) == f"at step 0, {difference}"


def test_trajectory_allows_for_the_coarsest_floats_and_for_the_steps() -> None:
    double = log_of({"w": [1.0]}, {"w": [1.0]})
    single = log_of({"w": np.float32([1.0])}, {"w": np.float32([1.0])})
    mixed = log_of({"w": 1.0, "v": np.float32(1.0)}, {"w": 1.0, "v": np.float32(1.0)})
    rounded = log_of({"w": 1.0 + 1e-4, "v": 1.0}, {"w": 1.0, "v": 1.0})
    assert isinstance(compare_logs(mixed, rounded), Silent)
    whole = log_of({"w": [1]}, {"w": [1]})
    for exact, slack in ((double, 5e-7), (whole, 5e-7), (single, 1.6e-3)):
        for step, error, verdict in (
            (0, 0.9 * slack, Silent),
            (0, 1.5 * slack, Alarm),
            (1, 1.3 * slack, Silent),  # the square root of two more, at the second step
            (1, 1.6 * slack, Alarm),
        ):
            off = log_of({"w": [1.0 + error * (step == 0)]}, {"w": [1.0 + error * (step == 1)]})
            assert isinstance(compare_logs(exact, off), verdict), (slack, step, error)


def test_trajectory_says_how_far_off_it_was_also_when_silent() -> None:
    theirs = log_of({"w": [4.0, 1.0]}, {"w": [1.0, 0.0]})
    near = compare_logs(log_of({"w": [4.0, 1.0]}, {"w": [1.0, 4e-8]}), theirs)
    assert near == Silent(4, deviation=1e-8)
    far = compare_logs(log_of({"w": [4.0, 1.0]}, {"w": [1.0, 1.0]}), theirs)
    assert isinstance(far, Alarm)
    assert far.deviation == 0.25
    nan = compare_logs(log_of({"w": [4.0, np.nan]}), theirs[:1])
    assert isinstance(nan, Alarm)
    assert nan.deviation == np.inf


def test_trajectory_measures_by_the_largest_that_a_key_has_been() -> None:
    theirs = log_of({"w": [1.0]}, {"w": [0.0]})
    assert isinstance(compare_logs(log_of({"w": [1.0]}, {"w": [1e-9]}), theirs), Silent)
    assert isinstance(compare_logs(log_of({"w": [1.0]}, {"w": [1e-5]}), theirs), Alarm)


def test_trajectory_holds_whole_numbers_exactly_and_lengths_and_names() -> None:
    counted = log_of({"step": 1_000_000_000})
    assert isinstance(compare_logs(log_of({"step": 1_000_000_001}), counted), Alarm)
    assert isinstance(compare_logs(counted, counted), Silent)
    longer = compare_logs([*counted, *counted], counted)
    assert in_english(longer) == alarm("2 steps are logged, PyTorch logs 1")
    assert in_english(compare_logs(log_of({"t": 1}), counted)) == alarm(
        "step 0 logs t, PyTorch logs step"
    )


def test_trajectory_takes_nan_for_an_answer_and_leaves_identities_to_others() -> None:
    nan = log_of({"w": [np.nan, 1.0]})
    assert isinstance(compare_logs(nan, nan), Silent)
    assert isinstance(compare_logs(log_of({"w": [1.0, 1.0]}), nan), Alarm)
    assert isinstance(compare_logs(nan, log_of({"w": [1.0, 1.0]})), Alarm)
    off = compare_logs(log_of({"w_error": 1e-16}), log_of({"w_error": 5e-16}))
    assert isinstance(off, Declined)


# ----- mode, on layers made up -----


def dropout_scenario(p: float, scale: float, seed: int) -> Scenario:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((64, 64))

    def train() -> Any:
        return x * (rng.random(x.shape) >= p) * scale

    flags = tuple(np.array([on]) for on in (True, False, False, False, True))
    return Scenario(x, (train(), x, x, x[:1], train()), ({},) * 5, flags)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_chance_never_breaks_the_rule_about_the_mean(p: float) -> None:
    for seed in range(100):
        correct = dropout_scenario(p, 1 / (1 - p), seed)
        assert [rule(correct) for rule in rules.RULES] == [None] * len(rules.RULES)
        assert rules.training_keeps_the_mean(dropout_scenario(p, 1.0, seed)) is not None


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_a_row_alone_is_compared_relative_to_the_largest_output(size: float) -> None:
    scenario = dropout_scenario(0.5, 2.0, 0)

    def verdict(error: float) -> Any:
        outputs = list(scenario.outputs)
        outputs[rules.EVAL] = np.array([[size, 0.0], [size, 0.0]])
        outputs[rules.FIRST_ROW] = np.array([[size, size * error]])
        return rules.rows_stand_alone(replace(scenario, outputs=tuple(outputs)))

    assert verdict(1e-14) is None
    assert verdict(1e-6) is not None


def test_the_rule_about_the_mean_holds_what_may_drop_alone() -> None:
    """If another layer follows the dropout, the outputs are not multiples."""
    observed = dropout_scenario(0.25, 1 / 0.75, 0)
    behind = tuple(np.tanh(output) for output in observed.outputs)
    assert rules.training_keeps_the_mean(replace(observed, outputs=behind)) is None


def test_only_outputs_of_one_shape_are_searched_for_a_mask() -> None:
    observed = dropout_scenario(0.5, 2.0, 0)
    outputs = observed.outputs[0], np.ones((64, 1)), *observed.outputs[2:]
    for rule in (rules.what_is_dropped_changes, rules.training_keeps_the_mean):
        assert rule(replace(observed, outputs=outputs)) is None


def test_the_tolerance_of_the_mean_is_not_wider_than_chance() -> None:
    """Here chance explains 0.069; the first is off by 0.08, the second by 0.04."""
    assert rules.training_keeps_the_mean(dropout_scenario(0.5, 2.14, 0)) is not None
    assert rules.training_keeps_the_mean(dropout_scenario(0.5, 2.06, 0)) is None


@pytest.mark.parametrize(
    ("before", "after", "correct"),
    [(-1.0, -0.5, True), (-1.0, -1.5, False), (9.0, 8.0, True), (9.0, 10.0, False)],
)
@pytest.mark.parametrize("statistic", ["mean", "var"])
def test_statistics_may_come_from_either_side(
    statistic: str, before: float, after: float, correct: bool
) -> None:
    assert (_moved(statistic, before, after) is None) == correct


def test_a_variance_may_or_may_not_count_with_bessels_correction() -> None:
    """The batch has the mean 1 and the variances 1 and 2; between them, both ways are fine."""
    assert _moved("var", 1.5, 1.4) is None
    assert _moved("var", 1.5, 1.6) is None
    assert _moved("mean", 1.5, 1.6) is not None


@pytest.mark.parametrize("before", [0.9995, 1.0, 1.0005])
def test_a_statistic_that_is_that_of_the_batch_may_move_either_way(before: float) -> None:
    assert _moved("mean", before, before - 1e-4) is None
    assert _moved("mean", before, before + 1e-4) is None


def test_nan_that_stays_in_place_violates_no_rule_about_modes() -> None:
    """Reporting it is left to `finite`."""
    rows = np.array([[np.nan, 2.0], [1.0, 3.0]])
    states = ({"state.scale": np.array([np.nan, 1.0])},) * 5
    outputs = rows, rows, rows, rows[:1], rows
    scenario = replace(dropout_scenario(0.5, 2.0, 0), x=rows, outputs=outputs, states=states)
    assert [rule(scenario) for rule in rules.RULES] == [None] * len(rules.RULES)


def test_a_statistic_that_appears_or_disappears_has_no_direction() -> None:
    observed, mean = dropout_scenario(0.5, 2.0, 0), {"state.running_mean": np.zeros(64)}
    for states in (({},) * 4 + (mean,), (mean,) * 4 + ({},)):
        assert rules.statistics_approach_the_batch(replace(observed, states=states)) is None


def test_a_statistic_may_move_by_rounding_if_it_and_that_of_the_batch_are_zero() -> None:
    for after in (-1e-17, 1e-17):
        assert _moved("mean", 0.0, after, (-1.0, 1.0)) is None


def _moved(
    statistic: str, before: float, after: float, rows: tuple[float, float] = (0.0, 2.0)
) -> str | None:
    observed = dropout_scenario(0.5, 2.0, 0)
    states = tuple(
        {f"state.running_{statistic}": np.array([value])} for value in (before,) * 4 + (after,)
    )
    batch = np.array([[row] for row in rows])
    return rules.statistics_approach_the_batch(replace(observed, x=batch, states=states))


def test_a_layer_that_drops_everything_does_not_keep_the_mean() -> None:
    reply = rules.training_keeps_the_mean(dropout_scenario(2.0, 1.0, 0))
    assert reply is not None
    assert str(reply).startswith("on average, the output in training is 0 times")


# ----- checkpoint, on trainings made up -----


def resumed(text: str) -> Verdict:
    engine = f"{TINY}\n\ncalls = [0]\n"
    run = run_isolated(tiny_job(engine, text, measure=(CHECKPOINT.measurement,)))[0]
    return evaluate(CHECKPOINT, Observation(read_probes(text, "p.py")[0], run, {}))


def test_checkpoint_says_when_a_training_is_not_the_same_twice() -> None:
    text = """
def drifts(lib, resume_at=1):
    'A log that depends on how often it was made.'
    lib.calls[0] += 1
    yield {"w": [0.0]}
    yield {"w": [float(lib.calls[0])]}
"""
    assert in_english(resumed(text)) == alarm(
        "the same training gives two different logs: w at step 1 differs by up to 2"
    )


def test_checkpoint_compares_bits_dtypes_names_and_lengths() -> None:
    text = """
def resumes(lib, resume_at=1):
    'One value, which depends on the way.'
    import numpy as np
    yield {"w": np.ones(2)}
    yield {"w": np.WITH if resume_at else np.WITHOUT}
"""

    def between(one: str, other: str) -> str:
        return str(in_english(resumed(text.replace("WITHOUT", other).replace("WITH", one))))

    assert "Silent(compared=1" in between("ones(2)", "ones(2)")
    assert "differs by up to 2.22e-16" in between("ones(2)", "nextafter(np.ones(2), 2)")
    assert "is <f4 (2,) and <f8 (2,)" in between("ones(2, 'f4')", "ones(2)")
    assert "differs by up to NaN" in between("ones(2)", "full(2, np.nan)")
    alone = text.replace(
        '{"w": np.WITH if resume_at else np.WITHOUT}', '{"w" if resume_at else "v": 1}'
    )
    assert "only one of them logs w at step 1" in str(in_english(resumed(alone)))
    for only in ("if resume_at", "if not resume_at"):
        longer = text.replace('yield {"w": np.WITH', f'{only}: yield {{"w": np.WITH')
        longer = longer.replace("WITHOUT", "e").replace("WITH", "e")
        assert "only one of them logs w at step 1" in str(in_english(resumed(longer)))


def test_a_training_that_fails_when_it_does_not_stop_is_an_alarm() -> None:
    text = """
def stops(lib, resume_at=1):
    'Only with a stop.'
    yield {"w": [1.0 / resume_at]}
"""
    verdict = resumed(text)
    assert isinstance(verdict, Alarm)
    assert "TypeError" in str(verdict.message)


# ----- loss-falls -----


def test_loss_falls_has_nothing_to_follow_without_a_slope_or_two_losses(baseline: Baseline) -> None:
    assert in_english(verdict(baseline, LOSS_FALLS, "worker-draws", "no-op")) == declined(
        "the log does not have two losses"
    )
    assert "too small for a step" in str(stepped("a.softmax(0)", "[0.5, 1.0]"))
    # Only a layer's own shift has a slope here: a step moves the parameters too.
    normalised: Probe = SHARED["batch-norm-in-training"]
    verdicts = baseline.clean(find_engine(), [normalised])
    assert isinstance(verdicts[normalised.name, "uniform"].verdicts["loss-falls"], Silent)


def stepped(formula: str, values: str, change: str = "no-op") -> Verdict:
    """loss-falls on minigrad, rewritten or not, under the uniform loss."""
    text = f"def g(lib, a={values}):\n    'doc'\n    return {formula}\n"
    (probe,) = read_probes(text, "p.py")
    result = Baseline(open_cache(), (LOSS_FALLS,)).clean(engine_with(change), [probe])
    return result[probe.name, "uniform"].verdicts["loss-falls"]


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("a.log()", "[0.01]"),  # a thousandth of the slope would end at -0.09
        ("(100 * a) ** 2", "[1.0]"),  # and here far up on the other side of the valley
    ],
)
def test_loss_falls_takes_a_smaller_step_where_the_first_goes_too_far(
    formula: str, values: str
) -> None:
    assert stepped(formula, values) == Silent(1)


def test_loss_falls_needs_a_step_that_lowers_the_loss_by_more_than_rounding() -> None:
    """The rounding error is 1.4e-14; the largest step lowers the loss by 1e-13 or 9e-15."""
    assert isinstance(stepped("a * 1e-5 + 1.0", "[1.0]"), Silent)
    assert isinstance(stepped("a * 3e-6 + 1.0", "[1.0]"), Declined)


def test_loss_falls_says_nothing_at_a_kink() -> None:
    """Of two largest elements one alone gets the gradient, and the other holds the loss up."""
    verdict = stepped("lib.nn.MaxPool2d(2)(a)", "[[[[2.0, 2.0], [1.0, 0.0]]]]")
    assert isinstance(verdict, Declined)
    assert "a kink" in str(verdict.reason)


def test_loss_falls_catches_a_gradient_that_went_to_the_wrong_element() -> None:
    """The loss is constant in both directions."""
    loser = edit("max_pool2d", "flat.argmax(-1)", "flat.argmin(-1)")
    assert in_english(
        stepped("lib.nn.MaxPool2d(2)(a)", "[[[[3.0, 2.0], [1.0, 0.0]]]]", loser)
    ) == alarm("the loss goes from 3 to 3")


def test_loss_falls_allows_for_leaves_whose_own_rounding_is_more_than_a_step() -> None:
    single = stepped("a.var(0)", "[100000.1, 100001.3, 100005.7]", "float32-data")
    assert isinstance(single, Declined)
    assert isinstance(stepped("a.var(0)", "[100000.1, 100001.3, 100005.7]"), Silent)


def test_loss_falls_cannot_follow_an_infinite_loss_and_takes_nan_for_no_fall() -> None:
    assert "infinite" in str(stepped("-(a.log())", "[0.0]"))
    assert isinstance(stepped("a.log()", "[-1.0]"), Alarm)


def test_loss_falls_is_blind_to_nan_where_the_loss_does_not_look() -> None:
    masks = edit("selection.py::where", "np.where(condition, g, 0)", "condition * g")
    assert isinstance(stepped("lib.where(a > 0, a, 0.0).sqrt()", "[-1.0, 4.0]", masks), Silent)


def test_loss_falls_catches_a_gradient_that_points_uphill() -> None:
    uphill = stepped(
        "a * 3.0",
        "[1.0]",
        edit("mul", "unbroadcast(g * b, a.shape)", "unbroadcast(-g * b, a.shape)"),
    )
    assert in_english(uphill) == alarm("the loss goes from 3 to 3.009")
