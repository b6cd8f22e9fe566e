"""Stages: how far a fault came, judged where the change is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from harness.answer_key.stage import Infection, infection_of, stage_of
from harness.core.message import message
from harness.core.run import Digest
from harness.engines.engine import Dialect, Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.pages.probe import Probe, read_probes
from harness.runs.cache import Cache
from harness.runs.recorder import Recorder
from tests.harness.bundled import CATALOGUE
from tests.harness.tiny import patched

ENGINE = """\
import numpy as np


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data, self.grad, self.rule, self.calls = data, None, None, 0

    def double(self):
        out = Tensor(self.data + self.data)

        def rule(g):
            self.calls += 1
            scale = 2
            return g * scale

        out.rule, out.leaf = rule, self
        return out

    def backward(self, cotangent):
        g = self.rule(cotangent)
        self.leaf.grad = np.abs(g) / np.abs(g) * g


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
"""
CLEAN = Engine("tiny", Dialect(module="tiny"), Path("/nowhere"), {"tiny.py": ENGINE})
BASELINE = Baseline(Cache(None), diagnostics=())


def broken(tmp_path: Path, diff: str) -> Engine:
    return patched(CLEAN, diff, tmp_path)


def probe_of(body: str) -> tuple[Probe, ...]:
    return read_probes(f"def p(a=[1.0, -2.0]):\n    'doc'\n    {body}\n", "p.py")


def undone(engine: Engine) -> Engine:
    return replace(CLEAN, sites=tuple(site.undone() for site in engine.sites))


def infection(tmp_path: Path, diff: str, body: str = "return a.double()") -> str:
    """What the trails say about a probe's run, as the lab would ask it."""
    engine, probes = broken(tmp_path, diff), probe_of(body)
    run = BASELINE.broken(CLEAN, engine, probes)[0]
    assert run.reached
    inside = BASELINE.inside(engine, probes)["p", "uniform"]
    clean = BASELINE.inside(undone(engine), probes)["p", "uniform"]
    return infection_of(inside.trail, clean.trail).values


RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"


@pytest.mark.parametrize(
    ("diff", "values"),
    [
        ("@@ double @@\n-$x + $x\n+2 * $x", RIGHT),
        ("@@ double @@\n-$x + $x\n+3 * $x", WRONG),
        ("@@ double @@\n-$x + $x\n+($x * 0.1 + $x * 0.2) / 0.15", RIGHT),  # up to rounding
        ("@@ double @@\n-$x + $x\n+($x + $x) * (1 + 1e-9)", WRONG),
        ("@@ double @@\n-$x + $x\n+$x + $x + 1e-300", RIGHT),
        # Another type, or a shape that broadcasts to the same numbers.
        ("@@ double @@\n-$x + $x\n+np.float32($x + $x)", RIGHT),
        ("@@ double @@\n-$x + $x\n+($x + $x)[None]", RIGHT),
        ("@@ double @@\n-$x + $x\n+($x + $x)[::-1]", WRONG),
        ("@@ double.rule @@\n-g * scale\n+scale * g", RIGHT),
        ("@@ double.rule @@\n-g * scale\n+g * scale * True", RIGHT),
        ("@@ double.rule @@\n-g * scale\n+g + scale", WRONG),
        ("@@ double.rule @@\n-scale = 2\n+scale = 3", WRONG),
        ("@@ double.rule @@\n-scale = 2\n+scale = 2.0", RIGHT),
        ("@@ double.rule @@\n-scale = 2\n+factor = 2\n+scale = factor", RIGHT),
        # A variable that nothing uses, and what an object keeps.
        ("@@ double.rule @@\n-scale = 2\n+unused = 7\n+scale = 2", RIGHT),
        ("@@ double.rule @@\n scale = 2\n+self.total = 1.5", WRONG),
        ("@@ double.rule @@\n scale = 2\n+self.data = self.data + 0", RIGHT),
        ("@@ double.rule @@\n scale = 2\n+self.data = self.data + 1", WRONG),
        ("@@ double.rule @@\n-return g * scale\n+return g", WRONG),
        ("@@ double.rule @@\n-return g * scale\n+if scale:\n+    return scale * g", RIGHT),
        ("@@ double.rule @@\n-return g * scale\n+return [(g * scale).tolist()]", RIGHT),
        ("@@ double.rule @@\n-def rule(g):\n+def rule(g, scale=2):\n     ...", UNKNOWN),
        # Nothing is returned, and the change is in an object that is not given: not compared.
        ("@@ Tensor.backward @@\n-np.abs($g) / np.abs($g) * $g\n+$g", UNKNOWN),
        ("@@ Tensor.backward @@\n-np.abs($g) / np.abs($g) * $g\n+-$g", UNKNOWN),
    ],
)
def test_infection_is_a_wrong_number_that_a_changed_function_returns_or_writes(
    diff: str, values: str, tmp_path: Path
) -> None:
    assert infection(tmp_path, diff) == values


def test_a_call_that_raises_where_the_other_returns_is_not_compared(tmp_path: Path) -> None:
    diff = "@@ Tensor.backward @@\n-self.rule(cotangent)\n+self.rule(None)"
    assert infection(tmp_path, diff) == UNKNOWN


def test_recording_goes_on_to_the_end_of_the_stack(tmp_path: Path) -> None:
    diff = "@@ deep @@\n-1 + deep($n)\n+2 + deep($n)"
    body = "import tiny; tiny.deep({}); return a.double()"
    assert infection(tmp_path, diff, body.format(100)) == WRONG
    (endless, *_) = BASELINE.broken(CLEAN, broken(tmp_path, diff), probe_of(body.format(-1)))
    assert endless.failure is not None
    assert endless.failure.type == "RecursionError"
    assert endless.reached == [0]


def trail(*values: object) -> dict[str, Digest]:
    """The trail of calls that are given nothing, and return these values."""
    recorder = Recorder()
    for value in values:
        with recorder.call("f", {}):
            recorder.value(None, value)
    return recorder.trail


def same(one: object, other: object) -> bool:
    return infection_of(trail(one), trail(other)).values == RIGHT


def test_only_numbers_count() -> None:
    cycle: list[object] = [1.0]
    cycle.append(cycle)
    assert same((0, 2, 1), [0, 2, 1])
    assert same(np.array([0, 2, 1]), [0.0, 2.0, 1.0])
    assert not same((np.zeros(2), np.ones(2)), (np.ones(2), np.zeros(2)))
    assert same(2, 2.0)
    assert same(True, 1)
    assert same(np.ones((3, 4)), 1.0)
    assert same({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0})
    for one, other in (("a", "b"), (len, Path)):  # no numbers: nothing is compared
        assert infection_of(trail(one), trail(other)).values == UNKNOWN
    assert same(cycle, cycle)
    assert not same(1.0, 1.5)
    assert not same([1.0, 2.0], [2.0, 1.0])
    assert not same({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0})
    assert not same(np.nan, 0.0)
    assert not same(np.inf, -np.inf)


def test_calls_are_compared_in_any_order() -> None:
    def calls(*pairs: tuple[float, float]) -> dict[str, Digest]:
        recorder = Recorder()
        for x, y in pairs:
            with recorder.call("f", {"x": x}):
                recorder.value(None, y)
        return recorder.trail

    clean = calls((1.0, 2.0), (3.0, 4.0))
    assert infection_of(calls((3.0, 4.0), (1.0, 2.0)), clean).values == RIGHT
    assert infection_of(calls((1.0, 2.0), (3.0, 5.0)), clean).values == WRONG
    assert infection_of(calls((1.0, 2.0), (7.0, 4.0)), clean).values == UNKNOWN
    assert infection_of(calls((1.0, 2.0)), clean).values == UNKNOWN
    assert infection_of({}, {}).values == UNKNOWN


@given(npst.arrays(np.float64, 4, elements=st.floats(-1e6, 1e6)), st.data())
def test_trails_are_compared_up_to_rounding_and_no_further(values, data) -> None:
    assume(np.abs(values).max() > 1e-3)
    near = values * (1 + 1e-15 * np.array([1, -1, 0.5, 0]))
    assert same(near, values)
    other = values.copy()
    place = int(np.abs(values).argmax())
    other[place] *= 1 + data.draw(st.sampled_from([1e-7, -1e-3, 1.0, -2.0, np.nan, np.inf]))
    assert not same(other, values)
    assert same(values.astype(np.float32).astype(float), values.astype(np.float32))


WRONG_INSIDE = Infection("wrong", message("the test"))


@pytest.mark.parametrize(
    ("outcome", "infection", "caught_by", "stage"),
    [
        ("not-reached", None, [], "not-reached"),
        ("disguised-correct", None, [], None),
        ("disguised-correct", Infection("unknown"), [], None),
        ("disguised-correct", Infection("right"), [], "not-infected"),
        ("disguised-correct", Infection("another-way"), [], "not-infected"),
        ("disguised-correct", WRONG_INSIDE, [], "not-propagated"),
        ("silent-corruption", None, [], "not-revealed"),
        ("silent-corruption", None, ["shape"], "revealed"),
        ("crash", None, ["crash"], "revealed"),
        ("convention", None, [], "not-revealed"),
    ],
)
def test_each_stage_has_its_sentence(
    outcome: Any, infection: Infection | None, caught_by: list[str], stage: str
) -> None:
    result, why = stage_of(outcome, infection, caught_by)
    assert result == stage
    assert bool(str(why)) == (infection is not None or outcome != "disguised-correct")


def test_a_variant_is_never_called_wrong() -> None:
    stage, why = stage_of("disguised-correct", WRONG_INSIDE, (), correct=True)
    assert (stage, str(why)) == ("not-infected", ANOTHER_WAY)


# ----- The explanation of a difference inside -----

ANOTHER_WAY = "computed another way, same result"
HIDDEN = "hidden here: on this input all numbers are right"


def reasons(page: str, *probes: str) -> set[str]:
    """The explanations of a bundled page's runs that are disguised as correct."""
    prepared = prepare(CATALOGUE.page(page), CATALOGUE, find_engine(), probes=probes)
    runs = run_lab(prepared, BASELINE).runs
    return {str(run.why) for run in runs if run.outcome == "disguised-correct"}


TABLE = {
    # The changed code gives the right numbers.
    ("tanh-by-expm1", "tanh"): HIDDEN,  # differs by rounding
    ("softmax-two-terms", "softmax-rows"): HIDDEN,  # in the residue of a sum of zero
    ("transpose-no-inverse", "permute-021"): HIDDEN,  # a tuple, and an array
    ("mul-swapped-operands", "square"): HIDDEN,
    ("conv-is-convolution", "convolve-with-a-blur"): HIDDEN,  # an operand that needs no gradient
    ("sqrt-missing-half", "layer-norm-constant-row"): HIDDEN,  # times zero, in the same rule
    ("xent-sum-not-mean", "xent-of-one-row"): HIDDEN,
    ("bn-momentum-swapped", "batch-norm-settles"): HIDDEN,
    ("breadth-first-walk", "tree"): HIDDEN,  # another order, equally good here
    # Another graph, with the right numbers.
    ("attn-no-scale", "attend-one-feature-a-head"): ANOTHER_WAY,  # the factor is 1
    ("attn-merge-no-transpose", "attend-one-head"): ANOTHER_WAY,
    ("sub-is-add-of-neg", "squared-deviations"): ANOTHER_WAY,
    ("layernorm-detach-stats", "layer-norm"): ANOTHER_WAY,  # that path carries zero
    ("layernorm-batch-axis", "layer-norm-constant-row"): ANOTHER_WAY,  # copies of the same mean
    ("rmsnorm-square-of-mean", "norm-by-root-mean-square-of-equals"): ANOTHER_WAY,
    ("velocity-holds-the-rate", "sgd-momentum"): ANOTHER_WAY,  # a variant
    # A wrong number, and where it became right.
    ("rsub-alias-sub", "one-minus-squared"): "wrong inside (Methods.__rsub__), but cancelled by "
    "`pow` and the backward of `sub`",
    ("rdiv-alias-div", "reciprocal-twice"): "wrong inside (Methods.__rtruediv__), but cancelled by "
    "`div` and the backward of `div`",
    ("attn-no-scale", "attend-one-position"): "wrong inside (what `softmax` receives), but "
    "cancelled by `softmax`",
    ("xent-on-softmax", "xent-of-one-class"): "wrong inside (what `cross_entropy` receives), but "
    "cancelled by `cross_entropy`",
    ("max-ties-all-ones", "max-behind-a-relu"): "wrong inside (max), but cancelled by the backward "
    "of `relu`",
    # A wrong number that no result shows.
    ("relu-in-place", "huber-within-and-beyond"): "wrong inside (relu), but cancelled by `relu`",
    ("bn-no-running-update", "batch-norm-in-training"): "wrong inside "
    "(BatchNorm1d._batch_statistics), but no result is wrong",
}
"""Known cases, each compared with the arrays that the functions of both engines return."""


@pytest.mark.parametrize(("page", "probe"), TABLE)
def test_the_stage_of_known_cases(page: str, probe: str) -> None:
    assert TABLE[page, probe] in reasons(page, probe)


def test_an_engine_that_sums_where_gradients_arrive_cancels_a_missing_sum() -> None:
    page, variant = CATALOGUE.page("skip-unbroadcast"), CATALOGUE.page("unbroadcast-on-arrival")
    names = ["add-new-axis", "add-stretched-axis", "add-created-and-stretched"]
    prepared = prepare(page, CATALOGUE, find_engine(), variant=variant, probes=names)
    assert {str(run.why) for run in run_lab(prepared, BASELINE).runs} == {
        "wrong inside (add), but cancelled by the sum of the gradients of a leaf"
    }


def test_wrong_cotangents_that_are_lost_in_a_sum_are_cancelled() -> None:
    page = CATALOGUE.page("mul-swapped-operands")
    probes = read_probes("def p(x=(3,)):\n    'doc'\n    return x * 2.0 - x * 2.0\n", "p.py")
    prepared = replace(prepare(page, CATALOGUE, find_engine()), probes=probes)
    assert {str(run.why) for run in run_lab(prepared, BASELINE).runs} == {
        "wrong inside (mul), but cancelled by the sum of the gradients of a leaf"
    }
