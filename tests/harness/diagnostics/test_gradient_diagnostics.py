"""Diagnostics of gradients: what each catches, what it cannot, and when it must be silent."""

from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.core.run import Failure, Measured, Run, pack
from harness.core.vocabulary import Alarm, Declined, Phase, Silent, Skipped
from harness.diagnostics import Observation, evaluate
from harness.diagnostics.diagnostic import ArrayPair, Scale, compare
from harness.diagnostics.gradcheck import MOST_ELEMENTS
from tests.harness.bundled import CATALOGUE
from tests.harness.diagnostics.wrong_engines import (
    LEAVES_IN_FLOAT32,
    NAMED,
    edit,
    engine_with,
    library_results,
    read,
    runs_of,
    verdict,
)
from tests.harness.verdicts import declined, in_english

# ----- Changes of the engine that several tests use -----

exp_rule = partial(edit, "exp", "return (g * value,)")
exp_value = partial(edit, "exp", "value = np.exp(a)")
slope_of_abs = partial(edit, "abs", "np.sign(a)")
weight_rule = partial(edit, "matmul", "db = rows.swapaxes(-1, -2) @ g")

EXP_DOUBLED = exp_value("value = 2 * np.exp(a)")
EXP_RULE_DOUBLED = exp_rule("return (2 * g * value,)")
EXP_COUNTS = exp_value(
    "exp.calls = getattr(exp, 'calls', 0) + 1\nvalue = np.exp(a) * (1 + 0.1 * exp.calls)"
)
RELU_AT_0_IS_1 = "relu-mask-ge"
GRAD_IN_FLOAT32 = edit("Tensor.backward", "np.asarray(total)", "np.asarray(total, np.float32)")
MASK_IGNORED = edit("Methods.masked_fill", "np.array(mask)", "np.zeros_like(np.array(mask))")
MUL_ROUNDS = edit("mul", "unbroadcast(g * b, a.shape)", "(g * b).astype(np.float32)")
GRADIENTS_SHARED = edit("_own", "not owned or not g.flags.writeable or id(owner) in taken", "False")
GRAPH_REMEMBERS = edit(
    "walk",
    "g = np.asarray(totals.pop(node))",
    "g = np.asarray(totals.pop(node))\n"
    "if node.vjp is not None:\n"
    "    g = g + (0 if node.grad is None else node.grad)\n"
    "    node.grad = g",
)
MEAN_OF_ROWS = weight_rule("db = rows.swapaxes(-1, -2) @ g / len(rows)")

# ----- Probes -----

ABS = "def p(a=(2, 3)):\n    'doc'\n    return a.abs()"
ABS_OF_MANY = "def p(a=(40, 40)):\n    'doc'\n    return a.abs()"
EXP = "def p(a=(3,)):\n    'doc'\n    return a.exp()"
MUL = "def p(a=(3,), b=(3,)):\n    'doc'\n    return a * b"
SUM = "def p(a=(3,), b=(3,)):\n    'doc'\n    return a + b"
SHARED = "def p(a=(3,), b=(3,)):\n    'doc'\n    return (a + b).exp() * 2.0"
NEW_AXIS = "def p(a=(3,), b=(4, 3)):\n    'doc'\n    return a + b"
INSIDE = "def p(a=(3, 5)):\n    'doc'\n    return a + a.mean(1, keepdim=True)"
NORM_AT_0 = "def p(a=[0.0, 0.0]):\n    'doc'\n    return a.norm()"
TIES = "def p(a=[[3.0, 3.0, 1.0], [0.0, 2.0, 2.0]]):\n    'doc'\n    return a.amax(1)"
RELU_AT_KINKS = "def p(a=[-1.0, 0.0, 2.0]):\n    'doc'\n    return a.relu()"
ABS_AT_KINKS = "def p(a=[-1.0, 0.0, 2.0]):\n    'doc'\n    return a.abs()"
MAXIMUM_TIES = "def p(lib, a=[1.0, 2.0], b=[1.0, 0.0]):\n    'doc'\n    return lib.maximum(a, b)"
KINK_ALONE = "def p(a=[0.0]):\n    'doc'\n    return a.relu()"
MEAN = "def p(a=(2, 3)):\n    'doc'\n    return a.mean(1)"
VAR_FAR = "def p(a=[[100000.1, 100001.3, 100005.7]]):\n    'doc'\n    return a.var(1)"
SOFTMAX_LARGE = "def p(a=[1000.0, 999.0]):\n    'doc'\n    return a.softmax(0)"
SINGLE = "def p(a: np.float32 = (3,)):\n    'doc'\n    return a.tanh()"
DIFFERENCE = "def p(a=(4, 3), b=(3,)):\n    'doc'\n    return a - b"
LAYER = "def p(x=(4, 3), w=(3, 2)):\n    'doc'\n    return x @ w"
TWO_ROWS = LAYER.replace("(4, 3)", "(2, 3)").replace("x @ w", "x @ w * s").replace("x=", "s=(), x=")
WIDE = "def p(a=(2, 3)):\n    'doc'\n    return a.exp() * np.array([1.1, 2.0, 3.0])"
LOG_AT_0 = "def p(a=[0.0, 3.0]):\n    'doc'\n    return a.log()"
RELU_OF_NAN = "def p(a=[0.0, 1.0]):\n    'doc'\n    return (a / a).relu()"
RELU = "def p(a=(3,)):\n    'doc'\n    return a.relu()"
REFUSED = (
    "def refuse_integers(lib, a=(2,)):\n    'doc'\n"
    "    return a * lib.tensor([1, 2], requires_grad=True)"
)
ATTENTION = (
    "def causal_attention(x=(4, 3)):\n    'doc'\n"
    "    later = np.triu(np.ones((4, 4), bool), 1)\n"
    "    return (x @ x.T).masked_fill(later, -np.inf).softmax(-1) @ x"
)
STRICTER = ATTENTION.replace("bool), 1)", "bool), 1) | np.eye(4, k=-1, dtype=bool)")
RUNNING_SUM = (
    "def causal_sum(lib, x=(4, 3)):\n    'doc'\n    return lib.tensor(np.tril(np.ones((4, 4)))) @ x"
)

# ----- What each catches, and what it is blind to -----


@pytest.mark.parametrize(
    ("name", "probe", "change", "says"),
    [
        ("crash", EXP, exp_rule("raise ValueError('no')"), "ValueError in the backward pass: no"),
        ("shape", NEW_AXIS, "skip-unbroadcast", "a.grad has shape (4, 3), but a has shape (3,)"),
        ("dtype", MUL, GRAD_IN_FLOAT32, "a.grad is float32, but a is float64"),
        (
            "dtype",
            SINGLE,
            edit("tanh", "np.tanh(a)", "np.tanh(a) * np.float64(1)"),
            "the output is float64, but NumPy promotes the leaves to float32",
        ),
        ("finite", NORM_AT_0, "norm-grad-at-zero", "a.grad holds nan"),
        ("finite", SOFTMAX_LARGE, "softmax-no-max-shift", "the output holds nan"),
        ("gradcheck", ABS, "abs-grad-no-sign", "central differences give"),
        ("gradcheck", NEW_AXIS, "skip-unbroadcast", "a.grad is (4, 3)"),
        ("gradcheck", INSIDE, "skip-unbroadcast", "(15 of 15 are wrong)"),
        ("gradcheck", MEAN, "mean-missing-n", "central differences give"),
        ("directional", ABS_OF_MANY, "abs-grad-no-sign", "along a random direction"),
        ("directional", NEW_AXIS, "skip-unbroadcast", "a.grad has shape (4, 3)"),
        ("torch", EXP, EXP_DOUBLED, "PyTorch gives"),
        ("torch", TIES, "max-ties-all-ones", "a.grad[0, 0]"),
        ("torch", VAR_FAR.replace(".var(1)", ".var(1).log()"), "var-one-pass", "PyTorch gives"),
        ("autograd", EXP, EXP_DOUBLED, "HIPS autograd gives"),
        (
            "autograd",
            TIES.replace("2.0, 2.0]", "2.0, 1.0]").replace("3.0, 3.0", "3.0, 2.0"),
            "max-uniform",
            "a.grad[0, 1]",
        ),
        ("forward", EXP, EXP_DOUBLED, "the output[0] is"),
        ("forward", MEAN, "mean-is-sum", "the output[0] is"),
        ("forward", VAR_FAR, "var-one-pass", "the output[0] is"),
        ("forward", RELU_OF_NAN, "relu-swallows-nan", "a number where PyTorch gives nan (1 of 2)"),
        ("second-backward", EXP, "grad-overwritten-by-next-backward", "a.grad, recomputed[0] is"),
        ("second-backward", SHARED, GRAPH_REMEMBERS, "a.grad, over the same graph[0] is"),
        ("purity", RELU, "relu-in-place", "the run changed a"),
        (
            "purity",
            EXP,
            exp_value("np.random.rand()\nvalue = np.exp(a)"),
            "drew from NumPy's global generator",
        ),
        ("purity", EXP, EXP_COUNTS, "the second output[0] is"),
        ("aliasing", SUM, GRADIENTS_SHARED, "a.grad and b.grad"),
        (
            "metamorphic",
            NEW_AXIS,
            "unbroadcast-mean",
            "compared with the sum over tiles of a, a.grad[0]",
        ),
        ("metamorphic", LAYER, MEAN_OF_ROWS, "the first row and the rest run apart, w"),
        ("metamorphic", TWO_ROWS, MEAN_OF_ROWS, "the first row and the rest run apart, w"),
        ("metamorphic", EXP, exp_rule("return (value,)"), "for the cotangent 2c - 3d, a.grad[0]"),
        (
            "metamorphic",
            EXP,
            exp_rule("return (g * value + 0.01,)"),
            "for the cotangent 2c - 3d, a.grad[0]",
        ),
        (
            "metamorphic",
            EXP,
            exp_rule("return (g * value * (g / g),)"),
            "for a cotangent of zeros, a.grad[0]",
        ),
        ("guard", REFUSED, "keep-int-dtype", "accepts what a correct engine refuses"),
        ("causality", ATTENTION, MASK_IGNORED, "from time 1 on, the output[0, 0]"),
        ("causality", RUNNING_SUM, weight_rule("db = rows @ g"), "the gradient from time 1 of"),
    ],
)
def test_a_diagnostic_catches(name: str, probe: str, change: str, says: str) -> None:
    assert isinstance(verdict(name, probe), Silent)
    result = verdict(name, probe, change)
    assert isinstance(result, Alarm)
    assert says in str(result.message)


@pytest.mark.parametrize(
    ("name", "probe", "change"),
    [
        ("crash", ABS, "abs-grad-no-sign"),
        ("shape", ABS, "abs-grad-no-sign"),
        ("shape", INSIDE, "skip-unbroadcast"),
        ("dtype", MUL, MUL_ROUNDS),
        ("finite", ABS, "abs-grad-no-sign"),
        ("gradcheck", EXP, EXP_DOUBLED),
        ("gradcheck", TIES, "max-ties-all-ones"),
        ("directional", EXP, EXP_DOUBLED),
        ("torch", RELU_AT_KINKS, RELU_AT_0_IS_1),
        ("torch", ABS_AT_KINKS, "abs-subgrad-one"),
        ("torch", TIES, "max-ties-first"),
        ("forward", ABS, "abs-grad-no-sign"),
        ("second-backward", ABS, "abs-grad-no-sign"),
        ("purity", ABS, "abs-grad-no-sign"),
        ("aliasing", ABS, "abs-grad-no-sign"),
        ("metamorphic", EXP, EXP_RULE_DOUBLED),
        ("metamorphic", DIFFERENCE, "sub-sign"),
        ("causality", STRICTER, "no-op"),
    ],
)
def test_a_diagnostic_is_blind(name: str, probe: str, change: str) -> None:
    """As it says of itself; that something is wrong (or may be) is shown by another one."""
    result = verdict(name, probe, change)
    assert isinstance(result, Silent)
    assert result.compared > 0


def test_autograd_declines_at_kinks() -> None:
    for probe in (RELU_AT_KINKS, ABS_AT_KINKS, TIES):
        result = verdict("autograd", probe)
        assert isinstance(result, Declined)
        assert "autograd cannot run this probe" in str(result.reason)


def test_guard_takes_an_exception_for_a_refusal_and_no_death() -> None:
    assert verdict("guard", REFUSED) == verdict("crash", EXP) == Silent(1)
    assert isinstance(verdict("guard", EXP), Skipped)
    assert isinstance(verdict("crash", REFUSED), Skipped)
    probe = read(REFUSED)
    for death in ("SIGSEGV", "TimeLimit", "ProcessExit"):
        run = Run(probe.name, "weighted", failure=Failure(Phase.RUN, death, ""))
        assert isinstance(evaluate(NAMED["guard"], Observation(probe, run, {})), Alarm)
        assert isinstance(evaluate(NAMED["crash"], Observation(probe, run, {})), Alarm)


# ----- Silence on correct engines -----

CORRECT = {
    "clean": "no-op",
    "float32": "float32-data",
    "leaves in float32": LEAVES_IN_FLOAT32,
    "relu'(0) = 1": RELU_AT_0_IS_1,
    "abs'(0) = 1": "abs-subgrad-one",
    "the first of a tie": "max-ties-first",
}
SIMILAR = {"leaves in float32", "abs'(0) = 1"}
"""Those that repeat another one: float32, and another slope at a kink."""
OPS = {"relu'(0) = 1": "relu", "the first of a tie": "max"}
"""The op that an engine changes: on shared probes without it, the engine runs as the clean one."""
MORE = [
    RELU_AT_KINKS,
    ABS_AT_KINKS,
    TIES,
    MAXIMUM_TIES,
    KINK_ALONE,
    NORM_AT_0,
    VAR_FAR,
    SOFTMAX_LARGE,
    SINGLE,
    ATTENTION,
    RUNNING_SUM,
    REFUSED,
    LOG_AT_0,
    "def p(a=[0.0, 4.0]):\n    'doc'\n    return a.sqrt()",
    "def p(a: np.float16 = (2, 3), b: np.float16 = (3,)):\n    'half'\n    return (a * b).exp()",
    "def p(x=[[1.0, 2.0], [100.0, 100.001]], w=[[1.0, 2.0], [3.0, 1.0]]):\n    'row by row'\n"
    "    h = x @ w\n    c = h - h.mean(1, keepdim=True)\n"
    "    return c / ((c * c).mean(1, keepdim=True) + 1e-8).sqrt()",
    "def p(a=[3e-6, -3e-6, 1e-3, -1e-7]):\n    'a kink within a step'\n    return a.relu()",
    "def p(a=[0.01, -0.003]):\n    'a pole nearby'\n    return 1.0 / a",
    "def p(a=(300,), b=(300,)):\n    'kinks among many'\n    return (a.relu() * b).max()",
    "def p(a=(0, 3)):\n    'no elements'\n    return a * 2.0",
    "def p(a=(), b=(2, 3)):\n    'a scalar'\n    return (a * b).sum()",
    "def p(a=(3,), b=(3,)):\n    'a leaf that is not used'\n    return a * 2.0",
    "def p(x=[[1.0, 1.001, 1.003]]):\n    'rows that hardly vary'\n"
    "    c = x - x.mean(1, keepdim=True)\n"
    "    return c / ((c * c).mean(1, keepdim=True) + 1e-5).sqrt()",
    "def p(a: np.float32 = (2, 3), b: np.float32 = (3,)):\n    'single'\n    return (a * b).exp()",
    WIDE,
    "def p(a=[[1000005.7, 1000002.0, 1000005.05, 1000004.85]]):\n    'far'\n    return a.var(1)",
    "def p(a=(3,), b=(4, 3)):\n    'tiles would count more often'\n    return a.sum() * b",
    "def p(a=[0.0, 0.0], b=(4, 2)):\n    'and zeros would hide it'\n    return a.sum() * b",
    "def p(x=[[1.0, 2.0], [1.0, 2.0]]):\n    'rows alike by accident'\n    return x * x.mean(0)",
    "def p(a=(11,)):\n    'large terms that cancel'\n    return (a - a.mean(0)) * 1e8 / 7.0",
    "def p(lib, a: np.float32 = (2,)):\n    'mixed'\n    return a * lib.tensor([1.0, 2.0])",
]


@pytest.mark.parametrize(
    ("engine", "nth"),
    [
        *((engine, 4) for engine in CORRECT if engine not in SIMILAR),
        *(pytest.param(engine, 1, marks=pytest.mark.slow) for engine in CORRECT),
    ],
)
def test_no_diagnostic_accuses_a_correct_engine(engine: str, nth: int) -> None:
    """On every nth shared probe, and on probes for which a check is likely to be too strict."""
    shared = [
        probe
        for probe in CATALOGUE.shared_probes.values()
        if probe.kind == "gradient" and OPS.get(engine, "") in probe.code
    ][::nth]
    more = [read(text.replace("def p(", f"def p{i}(")) for i, text in enumerate(MORE)]
    spoke: set[str] = set()
    for probe, run in runs_of(engine_with(CORRECT[engine]), [*shared, *more]):
        answers = library_results(probe, run.loss)
        for name in NAMED.keys() - {"loss-falls"}:
            result = evaluate(NAMED[name], Observation(probe, run, answers))
            assert not isinstance(result, Alarm), (probe.name, run.loss, name, result)
            spoke |= {name} if isinstance(result, Silent) else set()
    assert spoke == GRADIENT_DIAGNOSTICS


GRADIENT_DIAGNOSTICS = {
    name for name, item in NAMED.items() if "gradient" in item.kinds and name != "loss-falls"
}

# ----- Kinks -----


def test_elements_at_kinks_are_not_compared_and_all_others_are() -> None:
    assert verdict("gradcheck", RELU_AT_KINKS) == Silent(2, pytest.approx(0, abs=1e-8))
    assert isinstance(verdict("gradcheck", KINK_ALONE), Declined)
    assert isinstance(verdict("directional", KINK_ALONE), Declined)
    assert verdict("gradcheck", KINK_OFF_THE_LEAF) == Silent(1, pytest.approx(0, abs=1e-8))
    half = slope_of_abs("np.where(a == 0, -0.5, np.sign(a))")
    assert verdict("torch", ABS_AT_KINKS, half) == Silent(2, pytest.approx(0, abs=1e-12))


ABS_OF_TWO_ZEROS = "def p(a=[0.0, 0.0, 2.0]):\n    'doc'\n    return a.abs() * {}.0"
KINK_OFF_THE_LEAF = "def p(a=[1.0, 3.0]):\n    'doc'\n    return (a - 1.0).relu()"
LARGE_OUTPUT = "def p(a=[1.0, 2.0]):\n    'doc'\n    return a.exp() + 1e6"
SHARP_BEND = "def p(a=[1e-5, 1e-5]):\n    'doc'\n    return (a * 4e4).tanh()"
ONE_TIE = TIES.replace("a=", "a: np.float32 = ").replace("2.0, 2.0]", "2.0, 1.5]")
OTHER_ROW_WRONG = edit(
    "max", "kept * tied", "kept * tied * np.where(tied.sum(1, keepdims=True) > 1, 1, 1.001)"
)
OTHER_ENTRY_WRONG = edit(
    "relu", "np.where(a <= 0, 0, g)", "np.where(a < 0, 0, g) * (1 + (a > 1) / 1e3)"
)
TANH_RULE_DOUBLED = edit("tanh", "g * (1 - value**2)", "2 * g * (1 - value**2)")


@pytest.mark.parametrize(
    ("name", "probe", "change", "expected"),
    [
        ("gradcheck", RELU_AT_KINKS, "relu-identity-grad", Alarm),
        ("directional", RELU_AT_KINKS, "relu-identity-grad", Alarm),
        ("torch", ABS_AT_KINKS, slope_of_abs("np.where(a == 0, 7, np.sign(a))"), Alarm),
        ("torch", ABS_AT_KINKS, slope_of_abs("np.where(a == 0, -1.5, np.sign(a))"), Alarm),
        ("torch", ABS_AT_KINKS, slope_of_abs("np.where(a == 0, np.nan, np.sign(a))"), Alarm),
        # The leaf is 1, the rectified value 0: the leaf does not show the kink.
        ("torch", KINK_OFF_THE_LEAF, RELU_AT_0_IS_1, Silent),
        # A kink excuses no other entry.
        *(
            (name, RELU_AT_KINKS, change, expected)
            for name in ("gradcheck", "directional", "torch")
            for change, expected in ((OTHER_ENTRY_WRONG, Alarm), (RELU_AT_0_IS_1, Silent))
        ),
        # If the leaf moves, the gradient of the tied row jumps, and that of the other row does not.
        ("torch", ONE_TIE, "no-op", Silent),
        ("torch", ONE_TIE, OTHER_ROW_WRONG, Alarm),
        # What only looks like a kink: the rounding of a large output, and a sharp bend.
        ("gradcheck", LARGE_OUTPUT, EXP_RULE_DOUBLED, Alarm),
        ("gradcheck", SHARP_BEND, TANH_RULE_DOUBLED, Alarm),
    ],
)
def test_a_kink_excuses_what_is_correct_there_and_nothing_else(
    name: str, probe: str, change: str, expected: type
) -> None:
    assert isinstance(verdict(name, probe, change), expected)


@pytest.mark.parametrize(
    ("factor", "slopes", "expected"),
    [
        (3, "[0.9, -0.9, 1.0]", Silent),
        (-3, "[0.9, -0.9, 1.0]", Silent),
        (1, "[3.0, -3.0, 1.0]", Alarm),  # both are wrong, and add up to the right 0
    ],
)
def test_torch_accepts_every_slope_between_the_one_sided_ones_and_no_sum_of_others(
    factor: int, slopes: str, expected: type
) -> None:
    change = slope_of_abs(f"np.array({slopes})")
    probe = ABS_OF_TWO_ZEROS.format(factor)
    assert isinstance(verdict("torch", probe, change, loss="uniform"), expected)


# ----- Single precision -----

SINGLE_PRECISION = [
    "def p(a: np.float32 = (3,)):\n    'doc'\n    return a.exp()",
    "def p(a: np.float32 = (8, 8)):\n    'doc'\n    return a.exp().mean(1) * 1e-3",
    "def p(a: np.float32 = (4, 5)):\n    'doc'\n    return a.softmax(1).exp()",
    "def p(a: np.float32 = (10, 10), b: np.float32 = (10, 10)):\n    'doc'\n"
    "    return (a @ b).tanh().exp()",
]


@pytest.mark.parametrize("probe", SINGLE_PRECISION)
def test_one_part_in_ten_thousand_is_not_the_rounding_of_single_precision(probe: str) -> None:
    wrong = exp_value("value = np.exp(a) * np.float32(1.0001)")
    assert isinstance(verdict("forward", probe), Silent)
    assert isinstance(verdict("forward", probe, wrong), Alarm)


# ----- Comparing -----


@pytest.mark.parametrize(
    ("actual", "desired", "verdict"),
    [
        (1.0 + 1e-14, 1.0, Silent),
        (1.0 + 2e-14, 1.0, Alarm),
        (np.float32(1 + 7e-6), 1.0, Silent),
        (np.float32(1 + 8e-6), 1.0, Alarm),
        (1e-16, 0.0, Silent),
        (1e-9, 0.0, Alarm),
        ([1, 2], [1.7, 2.3], Alarm),
        ([True, False], [True, True], Alarm),
        ([[1.0, 2.0]], [1.0, 2.0], Alarm),
        ([1.0, 2.0], [1.0, np.nan], Silent),
        ([1.0, np.nan], [1.0, 2.0], Alarm),
        ([np.inf], [np.inf], Silent),
        ([-np.inf], [np.inf], Alarm),
        ([np.nan], [np.nan], Declined),
        ([], [], Declined),
    ],
)
def test_what_is_close_enough(actual: Any, desired: Any, verdict: type) -> None:
    pair = ArrayPair("a.grad", np.array(actual), np.array(desired))
    result = compare([pair], "it must be", Scale(terms=16, size=1.0))
    assert type(result) is verdict
    if isinstance(result, Silent):
        assert result.compared == int((~np.isnan(pair.expected)).sum())


def test_an_alarm_shows_the_digits_that_differ() -> None:
    probe = "def p(a=[1.0]):\n    'doc'\n    return a.log()"
    result = verdict("gradcheck", probe, "log-plus-eps")
    assert isinstance(result, Alarm)
    actual, _, expected = str(result.message).removeprefix("a.grad[0] is ").partition(", ")
    assert actual != expected.removeprefix("central differences give ")
    assert float(actual) == pytest.approx(float(expected.split()[-1]), rel=1e-7)


def test_an_output_without_elements_has_nothing_to_measure() -> None:
    probe = "def p(a=(3,)):\n    'doc'\n    return a[0:0]"
    for name in ("gradcheck", "directional", "metamorphic"):
        assert not isinstance(verdict(name, probe), Alarm)


# ----- Limits and reasons -----


def test_gradcheck_leaves_large_probes_to_directional() -> None:
    result = verdict("gradcheck", ABS_OF_MANY)
    assert isinstance(result, Declined)
    assert f"exceed the limit of {MOST_ELEMENTS}" in str(result.reason)
    assert isinstance(verdict("directional", ABS_OF_MANY), Silent)


@pytest.mark.parametrize("name", ["gradcheck", "directional", "second-backward", "metamorphic"])
def test_what_differs_by_itself_is_not_compared(name: str) -> None:
    """An output that differs from call to call is `purity`'s; slopes and sums of it say nothing."""
    result = verdict(name, EXP, EXP_COUNTS)
    assert in_english(result) == declined("the same leaves give a different output the second time")


def test_rows_that_are_apart_by_accident_are_not_compared() -> None:
    """Equal rows are their own mean, so the rows look apart at these numbers only."""
    probe = "def p(a=[[1.0, 2.0], [1.0, 2.0]]):\n    'doc'\n    return a - a.mean(0)"
    assert isinstance(verdict("metamorphic", probe), Silent)


def test_causality_declines_a_leaf_without_a_future() -> None:
    for shape in ("(1, 3)", "(3,)"):
        probe = f"def causal_exp(x={shape}):\n    'doc'\n    return x.exp()"
        assert in_english(verdict("causality", probe)) == declined(
            "x has no future: one time step, or no axis for it"
        )


def test_leaves_that_are_held_in_float32_get_a_step_that_float32_can_make() -> None:
    assert isinstance(verdict("gradcheck", WIDE, LEAVES_IN_FLOAT32), Silent)


def test_aliasing_writes_and_looks() -> None:
    probe = read(SUM)
    for change, moved in ("no-op", 0), (GRADIENTS_SHARED, 3):
        _, run = runs_of(engine_with(change), [probe], ["aliasing"])[0]
        numbers = run.measured["aliasing"].numbers
        assert numbers["a.grad|b.grad"] == moved
        assert numbers["b.grad|a"] == 0
        unseen = msgspec.structs.replace(run, shared=[])
        result = evaluate(NAMED["aliasing"], Observation(probe, unseen, {}))
        assert isinstance(result, Alarm) is bool(moved)


def test_tiles_and_rows_that_the_probe_refuses_are_left_out() -> None:
    probe = "def p(a=(3,), b=(4, 3)):\n    'doc'\n    return b.reshape(4, 3) * a.reshape(1, 3)"
    assert isinstance(verdict("metamorphic", probe), Silent)


def test_an_output_of_integers_has_no_slopes_and_the_wrong_dtype() -> None:
    rounds = exp_value("value = np.exp(a).astype(np.int64)")
    assert isinstance(verdict("gradcheck", EXP, rounds), Declined)
    assert isinstance(verdict("dtype", EXP, rounds), Alarm)


def test_finite_lets_an_infinite_slope_be_infinite_and_no_other() -> None:
    probe = "def p(a=[0.0, 4.0]):\n    'doc'\n    return a.sqrt()"
    assert verdict("finite", probe) == Silent(3)  # two outputs, one slope
    wrong = edit("sqrt", "2 * value", "2 * np.where(value > 1, 0, value)")
    result = verdict("finite", probe, wrong)
    assert isinstance(result, Alarm)
    assert "(1 of 2 numbers are not finite)" in str(result.message)


def test_finite_lets_a_pole_be_infinite_and_takes_an_overflow_for_what_it_is() -> None:
    result = verdict("finite", LOG_AT_0)
    assert in_english(result) == declined(
        "the leaves are at a pole, where the output has to be infinite"
    )
    overflows = "def p(a=[1000.0, 1.0]):\n    'doc'\n    return a.exp()"
    assert isinstance(verdict("finite", overflows), Alarm)
    reply = "def p(a=[1.0]):\n    'doc'\n    return a * np.inf"
    assert isinstance(verdict("finite", reply), Declined)


def test_finite_declines_if_the_probe_or_a_leaf_contains_an_infinity() -> None:
    steps = read("def p(lib):\n    'doc'\n    yield {'best': np.inf}")
    leaf = read("def p(a=()):\n    'doc'\n    return a")
    log = [{"best": pack(np.inf)}]
    measured = {"finite": Measured()}
    for probe, run, why in (
        (steps, Run("p", None, log=log, measured=measured), "the probe's text contains"),
        (leaf, Run("p", "uniform", {"a": pack(np.inf)}, measured=measured), "a leaf is not finite"),
    ):
        result = evaluate(NAMED["finite"], Observation(probe, run, {}))
        assert isinstance(result, Declined)
        assert why in str(result.reason)


def test_the_deviation_is_relative_and_far_from_rounding() -> None:
    wrong, right = verdict("torch", EXP, EXP_DOUBLED), verdict("torch", EXP)
    assert isinstance(wrong, Alarm)
    assert isinstance(right, Silent)
    assert wrong.deviation == pytest.approx(1.0)
    assert right.deviation is not None
    assert right.deviation < 1e-14


def test_a_log_keeps_its_shapes_its_dtypes_and_stays_finite() -> None:
    _, steps = (
        read("def p(lib):\n    'doc'\n    yield {}"),
        read("def p(lib):\n    'd'\n    yield {}"),
    )

    def logged(name: str, *snapshots: dict[str, Any]) -> object:
        log = [{key: pack(value) for key, value in snapshot.items()} for snapshot in snapshots]
        run = Run("p", None, log=log, measured={name: Measured()})
        return evaluate(NAMED[name], Observation(steps, run, {}))

    sound = {"w": np.ones(3), "loss": 2.0}, {"w": np.zeros(3), "loss": 1.0}
    for name in ("shape", "dtype", "finite"):
        assert isinstance(logged(name, *sound), Silent)
        assert isinstance(logged(name), Alarm)
    assert isinstance(logged("shape", {"w": [1.0]}, {"w": [[1.0]]}), Alarm)
    assert isinstance(logged("dtype", {"w": [1.0]}, {"w": np.float32([1.0])}), Alarm)
    assert isinstance(logged("finite", {"w": [1.0]}, {"w": [np.inf]}), Alarm)
    assert isinstance(logged("finite", {"w": [np.nan]}, {"w": [1.0]}), Alarm)
    assert isinstance(logged("finite", {"best": np.inf}, {"best": 1.0}), Silent)
