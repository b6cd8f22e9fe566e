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
