"""A finding about an op is about that op, and is no wider than what was observed."""

from pathlib import Path

from harness.doctor.diagnosis import Diagnosis, diagnose
from harness.experiment.baseline import Baseline
from harness.report.doctor import root_of, storage
from harness.runs.cache import open_cache
from tests.harness.bundled import part_of_catalogue
from tests.harness.engines.texts import SCALAR, changed, written

DATA = "self.data = np.array(data, dtype=float)"
POWER = """
    def __pow__(self, k):
        out = Value(self.data**k, (self,))

        def back():
            self.grad += {slope} * out.grad

        out.back = back
        return out

    def backward(self):"""


def diagnosed(text: str, folder: Path, *probes: str) -> Diagnosis:
    part = part_of_catalogue(["mul-ignore-upstream"], list(probes))
    return diagnose(written(folder, text), part, Baseline(open_cache(), diagnostics=()))


def findings(diagnosis: Diagnosis) -> list[str]:
    return [root_of(defect) for defect in diagnosis.defects]


def test_draws_that_change_no_number_are_one_note_about_the_engine(tmp_path: Path) -> None:
    text = changed((DATA, f"{DATA}\n        self.id = np.random.randint(10**9)"))
    found = diagnosed(text, tmp_path, "mul", "add-same-shape", "sum-rows", "mul-stretched-axis")
    assert (findings(found), found.storage.draws) == ([], True)
    notes = [line for line in storage(found) if "global generator" in line]
    assert notes == [
        "it draws from NumPy's global generator, but no gradient depends on what it draws"
    ]
    assert {item.break_: item.kind for item in found.breaks}["mul-ignore-upstream"] == "usable"


def powers(slope: str, folder: Path) -> Diagnosis:
    text = changed(("\n    def backward(self):", POWER.format(slope=slope)), text=SCALAR)
    return diagnosed(text, folder, "square", "cube", "first-power", "powers")


def test_a_power_that_fails_only_at_zero_is_wrong_on_some_inputs(tmp_path: Path) -> None:
    assert findings(powers("k * self.data ** (k - 1)", tmp_path)) == ["`pow` on some inputs"]


def test_a_power_that_is_wrong_everywhere_is_wrong(tmp_path: Path) -> None:
    assert findings(powers("k * self.data**k", tmp_path)) == ["`pow`"]


SUB = """
    def __sub__(self, other):
        a, b = self, lift(other)
        return Tensor(a.data - b.data, (a, b), (lambda g: fold(g, a.data.shape), lambda g: {}[0]))

    def __rsub__(self, other):
        return self - other

    def backward(self, g):"""
ARRAY_POWER = """
    def __pow__(self, k):
        rule = lambda g: g * k * self.data ** (k - 1)
        return Tensor(self.data ** k, (self,), (rule,))

    def backward(self, g):"""


def kinds(diagnosis: Diagnosis) -> dict[str, str]:
    return {
        name: defect.kind for defect in diagnosis.defects for name in (defect.probe, *defect.probes)
    }


def test_a_wrong_output_is_a_finding_of_its_own_beside_a_crash_of_the_op(tmp_path: Path) -> None:
    text = changed(("\n    def backward(self, g):", SUB))
    found = diagnosed(text, tmp_path, "sub", "sub-new-axis", "minus-itself", "number-minus")
    assert findings(found) == ["`sub`", "`sub` on some inputs"]
    assert kinds(found) == {"sub": "crash", "sub-new-axis": "crash", "minus-itself": "crash"} | {
        "number-minus": "value"
    }
    (wrong,) = (item for item in found.defects if item.kind == "value")
    assert "the output is" in str(wrong.evidence)
    assert "then KeyError in the backward pass" in str(wrong.evidence)


ADDED_IN_PLACE = """\
if self.grad is None:
            self.grad = part
        else:
            self.grad += part"""


def test_a_gradient_that_is_only_not_finite_is_a_finding_of_its_own(tmp_path: Path) -> None:
    """The other gradients are wrong since an array is added to in place that others still use."""
    text = changed(
        ("\n    def backward(self, g):", ARRAY_POWER),
        ("self.grad = part if self.grad is None else self.grad + part", ADDED_IN_PLACE),
        ("    g = g.sum", "    if g.shape == shape:\n        return g\n    g = g.sum"),
    )
    names = ("powers", "reused-leaf", "reused-product", "nested-sums", "mul", "add-same-shape")
    found = diagnosed(text, tmp_path, *names, "reused-leaf-late", "add-broadcast")
    roots = {item.probe: root_of(item) for item in found.defects}
    assert roots == {"reused-leaf": "a backward pass through several ops", "powers": "`pow`"}


def test_a_failure_in_the_forward_pass_is_one_of_the_op_that_failed(tmp_path: Path) -> None:
    """Of the probes that can run, only the one with the failure uses the other op as well."""
    reflected = (
        "\n    def __sub__(self, other):\n        return self + lift(other) * -1.0\n"
        "\n    def __rsub__(self, other):\n        return lift(other) - self\n"
        "\n    def __rmul__(self, other):\n        return {}[0]\n"
        "\n    def backward(self, g):"
    )
    text = changed(("\n    def backward(self, g):", reflected))
    found = diagnosed(text, tmp_path, "constant-first", "mul", "add-same-shape")
    assert findings(found) == ["`mul` on some inputs"]
