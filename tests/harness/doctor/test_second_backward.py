"""A second backward pass through the same results may add, replace, stop, or be refused.

Anything else is a wrong gradient. What each engine leaves in a leaf was worked out by hand.
"""

from pathlib import Path

import pytest

from harness.doctor.diagnosis import Diagnosis, diagnose
from harness.doctor.roots import Feature, Use
from harness.experiment.baseline import Baseline
from harness.report.doctor import accumulation, likeness_of, root_of
from harness.runs.cache import open_cache
from tests.harness.bundled import part_of_catalogue
from tests.harness.engines.texts import SCALAR, SOUND, changed, written

TWICE, TRUNK = "product-backward-twice", "two-products-one-trunk"
PART = part_of_catalogue(["no-interior-reset"], [TWICE, TRUNK, "square", "reused-product"])

CONVENTIONS = {
    "adds": (SCALAR, ("self.grad = 1.0", "self._reset(order)\n        self.grad = 1.0")),
    "replaces": (
        SCALAR,
        ("self.grad = 1.0", "for v in order:\n            v.grad = 0.0\n        self.grad = 1.0"),
    ),
    "frees the graph": (
        SCALAR,
        ("            v.back()\n", "            v.back()\n            v.back = lambda: None\n"),
    ),
    "refuses": (
        SCALAR,
        (
            "            v.back()\n",
            "            v.back()\n            del v.back\n",
        ),
    ),
    "sums in a table": (SOUND, ("parent.receive(part)", "parent.parents or parent.receive(part)")),
}
RESET = """
    def _reset(self, order):
        for v in order:
            if v.parents:
                v.grad = 0.0
"""


def diagnosed(text: str, folder: Path) -> Diagnosis:
    return diagnose(written(folder, text), PART, Baseline(open_cache(), diagnostics=()))


@pytest.mark.parametrize("name", CONVENTIONS)
def test_what_an_engine_may_do_is_no_finding(name: str, tmp_path: Path) -> None:
    text, *changes = CONVENTIONS[name]
    found = diagnosed(changed(*changes, text=text) + (RESET if text is SCALAR else ""), tmp_path)
    assert found.bugs == []
    assert found.accumulation.second_backward != "compounded"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        pytest.param(SCALAR, "96", id="numbers"),
        pytest.param(
            changed(("self.grad = 1.0", "self.grad += 1.0"), text=SCALAR), "128", id="seeds add up"
        ),
        pytest.param(
            changed(("pending = {self: np.array(g, dtype=float)}", "pending = {}"))
            .replace("rule(pending[t])", "rule(t.grad)")
            .replace("                pending[parent] = pending[parent] + part", "")
            .replace(" if parent in pending else part\n", "\n"),
            "128",
            id="arrays",
        ),
    ],
)
def test_results_that_keep_their_gradients_are_a_finding(
    text: str, last: str, tmp_path: Path
) -> None:
    """With h = x * x at 2, x ** 4 = h * h gives 8 to h and 32 to x, and then 16 or 24 to h."""
    found = diagnosed(text, tmp_path)
    (defect,) = found.defects
    assert defect.feature == Feature("", Use.SECOND_BACKWARD)
    assert {defect.probe, *defect.probes} == {TWICE, TRUNK}
    assert str(defect.evidence) == (
        f"the gradient is {last} after the second pass, not 64 (the sum of both) or 32 (the second "
        "alone)"
    )
    assert root_of(defect) == "a second backward pass through the same results"
    assert str(likeness_of(defect)) == "behaves like `no-interior-reset`"
    assert any("gives wrong gradients" in line for line in accumulation(found))


def test_a_wrong_first_pass_is_not_excused(tmp_path: Path) -> None:
    wrong = changed(("other.grad += self.data", "other.grad += 2.0 * self.data"), text=SCALAR)
    found = diagnosed(wrong, tmp_path)
    verdicts = {fit.probe: (fit.verdict, fit.kind) for fit in found.probes}
    assert verdicts[TWICE] == verdicts["square"] == ("bug", "value")
