"""Stages: how far a fault came, judged where the change is."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from harness.answer_key.outcome import infected, stage_of
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
BENCH = Baseline(Cache(None), diagnostics=())


def broken(tmp_path: Path, diff: str) -> Engine:
    return patched(CLEAN, diff, tmp_path)


def probe_of(body: str) -> tuple[Probe, ...]:
    return read_probes(f"def p(a=[1.0, -2.0]):\n    'doc'\n    {body}\n", "p.py")


def undone(engine: Engine) -> Engine:
    return replace(CLEAN, sites=tuple(site.undone() for site in engine.sites))


def infection(tmp_path: Path, diff: str, body: str = "return a.double()") -> bool:
    """Whether the patch infects the run of a probe, as the lab would ask it."""
    engine, probes = broken(tmp_path, diff), probe_of(body)
    run = BENCH.broken(CLEAN, engine, probes)[0]
    assert run.reached
    return infected(run.trail, BENCH.trails(undone(engine), probes)["p", "uniform"])


@pytest.mark.parametrize(
    ("diff", "is_infected"),
    [
        ("@@ double @@\n-$x + $x\n+2 * $x", False),
        ("@@ double @@\n-$x + $x\n+3 * $x", True),
        ("@@ double @@\n-$x + $x\n+($x * 0.1 + $x * 0.2) / 0.15", False),  # up to rounding
        ("@@ double @@\n-$x + $x\n+($x + $x) * (1 + 1e-9)", True),
        ("@@ double @@\n-$x + $x\n+$x + $x + 1e-300", False),
        ("@@ double @@\n-$x + $x\n+np.float32($x + $x)", True),
        ("@@ double.rule @@\n-g * scale\n+scale * g", False),
        ("@@ double.rule @@\n-g * scale\n+g + scale", True),
        ("@@ double.rule @@\n-scale = 2\n+scale = 3", True),
        ("@@ double.rule @@\n-scale = 2\n+scale = 1 + 1", False),
        ("@@ double.rule @@\n-scale = 2\n+factor = 2\n+scale = factor", False),
        ("@@ double.rule @@\n-self.calls += 1", True),
        ("@@ double.rule @@\n scale = 2\n+self.calls += 1", True),
        ("@@ double.rule @@\n scale = 2\n+self.calls += 0", False),
        ("@@ double.rule @@\n-return g * scale\n+return g", True),
        ("@@ double.rule @@\n-return g * scale\n+if scale:\n+    return scale * g", False),
        ("@@ double.rule @@\n-return g * scale\n+raise ValueError", True),
        ("@@ double.rule @@\n-def rule(g):\n+def rule(g, scale=2):\n     ...", False),
        ("@@ Tensor.backward @@\n-np.abs($g) / np.abs($g) * $g\n+$g", False),
    ],
)
def test_infection_is_judged_at_the_patched_place(
    diff: str, is_infected: bool, tmp_path: Path
) -> None:
    assert infection(tmp_path, diff) == is_infected


def test_a_place_that_raises_where_the_other_has_a_value_is_infected(tmp_path: Path) -> None:
    assert infection(tmp_path, "@@ Tensor.backward @@\n-self.rule(cotangent)\n+self.rule(None)")


def test_recording_goes_on_to_the_end_of_the_stack(tmp_path: Path) -> None:
    diff = "@@ deep @@\n-1 + deep($n)\n+2 + deep($n)"
    body = "import tiny; tiny.deep({}); return a.double()"
    assert infection(tmp_path, diff, body.format(sys.getrecursionlimit() // 3))
    (endless, *_) = BENCH.broken(CLEAN, broken(tmp_path, diff), probe_of(body.format(-1)))
    assert endless.failure is not None
    assert endless.failure.type == "RecursionError"
    assert endless.reached == [0]


def test_a_trail_tells_equal_values_from_others_in_every_process() -> None:
    def trail(*values: object) -> dict[str, Digest]:
        recorder = Recorder()
        for value in values:
            recorder.value(0, value)
        return recorder.trail

    cycle: list[object] = [1.0]
    cycle.append(cycle)
    for one in (1.0, "a", [1, {"k": (2, None)}], {3, 1, 2}, cycle, ValueError("x"), len, Path):
        assert trail(one) == trail(one)
        assert trail(one) != trail(2.0)
    assert trail(1.0, 2.0) != trail(2.0, 1.0)
    assert trail([1.0]) != trail([1.5])
    assert trail({1.0, 2.0}) == trail({2.0, 1.0}) != trail({1.0, 2.5})


@given(npst.arrays(np.float64, 4, elements=st.floats(-1e6, 1e6)), st.data())
def test_trails_are_compared_up_to_rounding_and_no_further(values, data) -> None:
    assume(np.abs(values).max() > 1e-3)

    def trail(array: object) -> dict[str, Digest]:
        recorder = Recorder()
        recorder.value(0, array)
        recorder.value(0, float(values[0]))
        return recorder.trail

    near = values * (1 + 1e-15 * np.array([1, -1, 0.5, 0]))
    assert not infected(trail(near), trail(values))
    other = values.copy()
    place = int(np.abs(values).argmax())
    other[place] *= 1 + data.draw(st.sampled_from([1e-9, -1e-3, 1.0, -2.0, np.nan, np.inf]))
    assert infected(trail(other), trail(values))
    assert infected(trail(values[:3]), trail(values))
    assert infected(trail(values.astype(int)), trail(values))
    assert infected(trail(values[::-1]), trail(values)) == (not np.allclose(values[::-1], values))


@pytest.mark.parametrize(
    ("outcome", "trail", "caught_by", "stage"),
    [
        ("not-reached", {}, [], "not-reached"),
        ("disguised-correct", {"0 value": Digest(1)}, [], "not-infected"),
        ("disguised-correct", {"0 value": Digest(2)}, [], "not-propagated"),
        ("silent-corruption", {"0 value": Digest(2)}, [], "not-revealed"),
        ("silent-corruption", {"0 value": Digest(2)}, ["shape"], "revealed"),
        ("crash", {"0 value": Digest(2)}, ["crash"], "revealed"),
        ("convention", {"0 value": Digest(2)}, [], "not-revealed"),
    ],
)
def test_each_stage_has_its_sentence(
    outcome: Any, trail: dict[str, Digest], caught_by: list[str], stage: str
) -> None:
    result, why = stage_of(outcome, trail, {"0 value": Digest(1)}, caught_by)
    assert result == stage
    assert why


# ----- The explanation of a difference inside -----

ANOTHER_WAY = "computed another way, same result"
CANCELLED = "wrong inside, but cancelled on the way out"


def reasons(page: str, *probes: str) -> set[str]:
    """The explanations of a bundled page's runs that are disguised as correct."""
    prepared = prepare(CATALOGUE.page(page), CATALOGUE, find_engine(), probes=probes)
    runs = run_lab(prepared, BENCH).runs
    return {str(run.why) for run in runs if run.outcome == "disguised-correct"}


@pytest.mark.parametrize(
    ("page", "probe"),
    [
        ("tanh-by-expm1", "tanh"),  # differs by rounding
        ("softmax-two-terms", "softmax-rows"),  # differs in the residue of a sum of zero
    ],
)
def test_of_a_rewrite_that_rounds_differently_both_formulas_agree(page: str, probe: str) -> None:
    assert reasons(page, probe) == {"it ran, but on this input both formulas agree"}


@pytest.mark.parametrize(
    ("page", "probe"),
    [
        ("sub-is-add-of-neg", "squared-deviations"),  # another graph
        ("velocity-holds-the-rate", "sgd-momentum"),  # another variable
        ("every-leaf-gets-a-copy", "reused-leaf"),  # another object
        ("layer-norm-by-var", "norm-random-rows"),
        ("breadth-first-walk", "tree"),  # another order, equally good here
        ("squeeze-ignores-dim", "error-of-one"),  # another shape, which broadcasts
        ("bn-no-running-update", "batch-norm-in-training"),  # a wrong value that nobody reads
        ("softmax-no-max-shift", "softmax-rows"),
    ],
)
def test_what_is_right_and_what_is_never_read_is_not_called_cancelled(
    page: str, probe: str
) -> None:
    assert reasons(page, probe) == {ANOTHER_WAY}


def test_a_wrong_cotangent_that_is_lost_in_a_rule_is_cancelled() -> None:
    """Every entry that ties for the maximum gets the whole gradient; relu multiplies it by 0."""
    assert reasons("max-ties-all-ones", "max-behind-a-relu") == {CANCELLED}


def test_wrong_cotangents_that_are_lost_in_a_sum_are_cancelled() -> None:
    page = CATALOGUE.page("mul-swapped-operands")
    probes = read_probes("def p(x=(3,)):\n    'doc'\n    return x * 2.0 - x * 2.0\n", "p.py")
    prepared = replace(prepare(page, CATALOGUE, find_engine()), probes=probes)
    assert {str(run.why) for run in run_lab(prepared, BENCH).runs} == {CANCELLED}
