"""No verdict on a foreign engine comes from what another run has left behind."""

import pytest

from harness.experiment import conformance
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Fit, fit
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import SOUND, changed

NAMES = ("add-same-shape", "cube", "mul", "reused-leaf", "sum-rows", "square")
PROBES = [CATALOGUE.shared_probes[name] for name in NAMES]

COUNTED = changed(
    ("class Tensor:\n", "class Tensor:\n    most, runs = 1, [0]\n\n"),
    (
        "        self.receive(np.array(g, dtype=float))\n",
        "        Tensor.runs[0] += 1\n"
        "        if Tensor.runs[0] > Tensor.most:\n            return\n"
        "        self.receive(np.array(g, dtype=float))\n",
    ),
)
"""Counts its backward passes in a list of the class; the second one does nothing."""

TAPED = changed(
    ("class Tensor:\n", "class Tape:\n    entries = []\n\n\nTAPE = Tape()\n\n\nclass Tensor:\n"),
    (
        "        self.parents, self.rules = parents, rules\n",
        "        self.parents, self.rules = parents, rules\n        TAPE.entries.append(self)\n",
    ),
    (
        "        self.receive(np.array(g, dtype=float))\n",
        "        if [t for t in TAPE.entries if t.data.shape == (7, 7)]:\n"
        "            raise IndexError\n        self.receive(np.array(g, dtype=float))\n",
    ),
    (
        "    def relu(self)",
        "    def __pow__(self, n):\n        Tensor(np.ones((7, 7)))\n        1 / 0\n\n"
        "    def relu(self)",
    ),
)
"""Has a global tape, which the crash of a power leaves so that every later backward pass fails."""


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return Baseline(open_cache())


def fits(baseline: Baseline, text: str) -> dict[str, Fit]:
    return fit(engine_of(text), PROBES, baseline)


def test_counters_and_lists_of_a_class_start_anew(baseline: Baseline) -> None:
    found = fits(baseline, COUNTED)
    assert {name: item.verdict for name, item in found.items() if item.verdict != "fits"} == {
        "cube": "lacks"
    }


def test_a_crash_leaves_nothing_to_the_next_probe(baseline: Baseline) -> None:
    found = fits(baseline, TAPED)
    assert [name for name, item in found.items() if item.verdict == "bug"] == ["cube"]
    assert str(found["cube"].reason).startswith("ZeroDivisionError in the forward pass")
    assert [name for name, item in found.items() if item.verdict == "fits"] == [
        name for name in NAMES if name != "cube"
    ]


def test_a_bug_that_does_not_show_again_is_not_claimed(
    baseline: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first runs are those of an engine with a wrong factor, and the others of a sound one."""
    wrong = changed(
        ("lambda g: fold(g * a.data, b.data.shape)", "lambda g: fold(g * b.data, b.data.shape)")
    )
    sound, broken = engine_of(SOUND), engine_of(wrong)
    run = conformance._runs_again
    repeated: list[str] = []

    def runs_again(_engine, probes, baseline):  # type: ignore[no-untyped-def]
        repeated.extend(probe.name for probe in probes)
        return run(sound, probes, baseline)

    monkeypatch.setattr(conformance, "_runs_again", runs_again)
    found = fit(broken, PROBES, baseline)
    assert (found["mul"].verdict, found["mul"].kind) == ("unjudged", "not-reproducible")
    assert "not reproducible: b.grad" in str(found["mul"].reason)
    assert "mul" in repeated
