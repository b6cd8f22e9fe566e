"""Verdicts on unbroken engines: what fits, what is lacking, what differs, and real bugs."""

from pathlib import Path

import pytest

from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Fit, fit, usable_probes
from harness.experiment.exploration import explore
from harness.pages.conventions import Conventions
from harness.pages.probe import read_probes
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import SOUND, changed, written

PROBES = CATALOGUE.shared_probes
WHOLE = "    if g.shape == shape:\n        return g\n    g = g.sum"
"""What need not be summed is passed on as it is."""


ADDED_FIRST = """\
self.wide = part if self.grad is None else self.wide + part
        self.grad = fold(self.wide, self.data.shape)"""


@pytest.fixture(scope="module")
def bench() -> Baseline:
    """One for all: what our own engine answers is asked for once."""
    return Baseline(open_cache())


def verdicts(bench: Baseline, folder: Path, text: str, *names: str) -> dict[str, Fit]:
    engine = explore(written(folder, text), Cache(None), Conventions()).engine
    return fit(engine, [PROBES[name] for name in names], bench)


def verdict(bench: Baseline, folder: Path, text: str, name: str) -> Fit:
    return verdicts(bench, folder, text, name)[name]


def test_a_sound_engine_fits_what_it_has_and_lacks_the_rest(
    bench: Baseline, tmp_path: Path
) -> None:
    names = ("add-new-axis", "mul-stretched-axis", "sum-rows", "reused-leaf", "exp", "train-mlp")
    found = verdicts(bench, tmp_path, SOUND, *names)
    assert usable_probes(found.values()) == {"add-new-axis", "mul-stretched-axis", "sum-rows"} | {
        "reused-leaf"
    }
    assert (found["exp"].verdict, found["train-mlp"].verdict) == ("lacks", "lacks")
    assert "has no `exp`" in str(found["exp"].reason)


BUGS = {
    "un-broadcasts the wrong operand": (
        ("lambda g: fold(g, b.data.shape))", "lambda g: fold(g, a.data.shape))"),
        *("add-new-axis", "shape", "b.grad has shape (3,), expected (4, 3)"),
    ),
    "does not un-broadcast": (
        ("lambda g: fold(g, a.data.shape),", "lambda g: g,"),
        *("add-new-axis", "shape", "a.grad has shape (4, 3), expected (3,)"),
    ),
    "squeezes an axis": (
        ("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"),
        *("add-stretched-axis", "shape", "a.grad has shape (3,), expected (3, 1)"),
    ),
    "takes the wrong factor": (
        ("lambda g: fold(g * a.data, b.data.shape)", "lambda g: fold(g * b.data, b.data.shape)"),
        *("mul-stretched-axis", "value", "b.grad"),
    ),
    "forgets the first of two gradients": (
        ("self.grad = part if self.grad is None else self.grad + part", "self.grad = part"),
        *("reused-leaf", "value", "x.grad"),
    ),
    "crashes on a legal shape": (
        ("in enumerate(shape) if size == 1", "in enumerate(shape, 1) if size == 1"),
        *("add-stretched-axis", "crash", "AxisError in the backward pass"),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_met_with_a_witness(bench: Baseline, tmp_path: Path, bug: str) -> None:
    change, probe, kind, said = BUGS[bug]
    found = verdict(bench, tmp_path, changed(change), probe)
    assert (found.verdict, found.kind) == ("bug", kind)
    assert said in str(found.reason)


def test_a_reduction_after_the_gradients_have_been_added_is_a_bug(
    bench: Baseline, tmp_path: Path
) -> None:
    """What arrives wide is added to what is narrow, and summed only then: too much of it."""
    text = changed(
        (
            "lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape)",
            "lambda g: g, lambda g: g",
        ),
        ("self.grad = part if self.grad is None else self.grad + part", ADDED_FIRST),
    )
    probe = PROBES["add-new-axis"]
    twice = read_probes(
        "def wide_and_narrow(a=(3,), b=(4, 3)):\n"
        '    """Once in a stretched sum, once by itself."""\n'
        "    return (a + b).sum() + (a * a).sum()\n",
        probe.path,
    )
    engine = explore(written(tmp_path, text), Cache(None), Conventions()).engine
    found = fit(engine, [probe, *twice], bench)
    assert found["add-new-axis"].verdict == "fits"
    assert (found["wide-and-narrow"].verdict, found["wide-and-narrow"].kind) == ("bug", "value")


def test_shared_memory_is_reported_and_is_not_an_obstacle(bench: Baseline, tmp_path: Path) -> None:
    found = verdict(bench, tmp_path, changed(("    g = g.sum", WHOLE)), "add-same-shape")
    assert (found.verdict, found.kind) == ("fits", "aliased")
    assert "share memory" in str(found.reason)


def test_another_meaning_of_a_name_differs(bench: Baseline, tmp_path: Path) -> None:
    text = changed(("np.maximum(self.data, 0), (self,)", "np.maximum(self.data, 0) + 1, (self,)"))
    found = verdict(bench, tmp_path, text, "relu-away-from-zero")
    assert found.verdict == "differs"
    assert str(found.reason).startswith("the output")


def test_an_epsilon_differs_and_is_called_one(bench: Baseline, tmp_path: Path) -> None:
    text = changed(("lambda g: g * (self.data > 0)", "lambda g: g * (1 + 1e-7) * (self.data > 0)"))
    found = verdict(bench, tmp_path, text, "relu-away-from-zero")
    assert (found.verdict, "an epsilon" in str(found.reason)) == ("differs", True)
    wrong = changed(("lambda g: g * (self.data > 0)", "lambda g: g * 1.01 * (self.data > 0)"))
    assert verdict(bench, tmp_path / "wrong", wrong, "relu-away-from-zero").verdict == "bug"


def test_another_subgradient_fits(bench: Baseline, tmp_path: Path) -> None:
    text = changed(("lambda g: g * (self.data > 0)", "lambda g: g * (self.data >= 0)"))
    found = verdict(bench, tmp_path, text, "relu-at-kinks")
    assert (found.verdict, found.kind) == ("fits", "convention")


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        ("raise ValueError(f'no broadcasting here: {other}')", "lacks"),
        ("assert self.data.shape == np.shape(lift(other).data)", "lacks"),
        ("np.zeros(2) + np.zeros(3)", "bug"),
    ],
)
def test_a_refusal_in_the_engines_own_words_is_not_a_bug(
    bench: Baseline, tmp_path: Path, raised: str, wanted: str
) -> None:
    begins = "    def __add__(self, other):\n"
    refuses = f"        if lift(other).data.ndim != self.data.ndim:\n            {raised}\n"
    text = changed((begins, begins + refuses))
    assert verdict(bench, tmp_path, text, "add-new-axis").verdict == wanted


def test_float32_is_compared_in_float32(bench: Baseline, tmp_path: Path) -> None:
    text = changed(("dtype=float)", "dtype=np.float32)"))
    found = verdicts(bench, tmp_path, text, "add-new-axis", "mul-stretched-axis", "sum-rows")
    assert {each.verdict for each in found.values()} == {"fits"}


def test_a_refusal_that_a_probe_asks_for_is_a_choice(bench: Baseline, tmp_path: Path) -> None:
    found = verdict(bench, tmp_path, SOUND, "refuse-target-without-cotangent")
    assert found.verdict == "lacks"
