"""Patches on foreign engines: whether they are the change that the page describes."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.core.report import Report
from harness.doctor.diagnosis import Application, diagnose
from harness.experiment.baseline import Baseline
from harness.experiment.exploration import explore
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE, part_of_catalogue
from tests.harness.engines.texts import written

ENGINES = Path(__file__).parents[2] / "engines"
CLOSURES = (ENGINES / "closures.py").read_text(encoding="utf-8")
FUNCTION = re.search(r"def unbroadcast.*?\n\n\n", CLOSURES, re.S)
assert FUNCTION


def report_on(page: str, engine: str, probes: Sequence[str] = ()) -> Report:
    cache = open_cache()
    explored = explore(engine, cache, CATALOGUE.conventions).engine
    experiment = prepare(CATALOGUE.page(page), CATALOGUE, explored, probes=probes)
    return run_lab(experiment, Baseline(cache, diagnostics=()))


def test_a_patch_that_changes_what_must_stay_right_is_misplaced() -> None:
    report = report_on("visited-missing", str(ENGINES / "rebinding.py:Array"))
    assert (report.headline, report.runs, report.agrees) == ("misplaced", [], False)
    assert "`reused-interior-node`, but on rebinding the outcome is silent-corruption" in str(
        report.misplaced
    )


def test_shared_memory_alone_does_not_make_a_patch_misplaced() -> None:
    report = report_on("skip-unbroadcast", str(ENGINES / "stored_first.py:Tensor"))
    assert report.misplaced is None
    assert ("add-same-shape", "aliased") in {(run.probe, run.kind) for run in report.runs}


def test_a_probe_says_nothing_if_the_loss_itself_needs_the_changed_code() -> None:
    """`backward` starts with ones here, so the output is multiplied by the cotangent."""
    report = report_on("mul-swapped-operands", str(ENGINES / "closures.py:Tensor"))
    assert report.misplaced is None
    assert {run.probe for run in report.runs} >= {"mul"}
    assert "square" not in {run.probe for run in report.runs}
    assert "`backward` takes no cotangent" in str(report.left_out["square"])


SMALL = ("affine", "chain", "reused-leaf", "nested-sums")
"""Probes of the page that do not train, since an engine of single numbers is slow."""


def test_a_probe_says_nothing_if_single_numbers_are_reused_where_an_array_is_not() -> None:
    pytest.importorskip("micrograd")
    report = report_on("assign-not-accumulate", "micrograd.engine:Value", SMALL)
    assert report.misplaced is None
    assert "uses a number several times" in str(report.left_out["affine"])
    assert report.agreement == (len(report.runs), len(report.runs))


def test_the_doctor_does_not_offer_a_misplaced_patch() -> None:
    part = part_of_catalogue(["visited-missing", "skip-unbroadcast"])
    diagnosis = diagnose(
        str(ENGINES / "rebinding.py:Array"), part, Baseline(open_cache(), diagnostics=())
    )
    found: dict[str, Application] = {item.break_: item for item in diagnosis.breaks}
    assert found["visited-missing"].sites
    assert found["visited-missing"].probes == []
    assert found["visited-missing"].reason.startswith("misplaced: ")
    assert found["skip-unbroadcast"].probes


# ----- Which argument is the gradient -----


def on_the_target() -> str:
    """The engine, with a method of the operand that un-broadcasts the gradient it is given."""
    assert FUNCTION
    method = FUNCTION[0].replace("(grad, shape):", "(self, grad):\n    shape = self.data.shape")
    text = CLOSURES.replace(FUNCTION[0], "")
    text = re.sub(r"unbroadcast\((.+), (\w+)\.data\.shape\)", r"\2.unbroadcast(\1)", text)
    indented = re.sub("^(?=.)", "    ", method.rstrip(), flags=re.M)
    return text.replace("    def __add__", f"{indented}\n\n    def __add__", 1)


def after_the_shape() -> str:
    """The engine, with a function that takes the shape first."""
    text = CLOSURES.replace("def unbroadcast(grad, shape)", "def unbroadcast(shape, grad)")
    return re.sub(r" unbroadcast\((.+), (\w+\.data\.shape)\)", r" unbroadcast(\2, \1)", text)


GRADIENT = """
class G(np.ndarray):
    def __new__(cls, g):
        return g.view(cls)

    def unbroadcast(self, shape):
        return fold(np.asarray(self), shape)


class Tensor"""


def of_the_gradient() -> str:
    """The engine, with gradients that un-broadcast themselves."""
    called = r" unbroadcast\((.+), (\w+\.data\.shape)\)"
    text = re.sub(called, r" G(\1).unbroadcast(\2)", CLOSURES)
    text = text.replace("def unbroadcast(", "def fold(", 1)
    return text.replace("\nclass Tensor", GRADIENT, 1)


CALLS = {"on_the_target": (on_the_target, 0), "after_the_shape": (after_the_shape, 1)} | {
    "of_the_gradient": (of_the_gradient, -1)
}


@pytest.mark.parametrize("design", CALLS)
def test_only_the_gradient_is_kept_if_a_call_that_unbroadcasts_is_removed(
    tmp_path: Path, design: str
) -> None:
    make, place = CALLS[design]
    path = written(tmp_path, make())
    engine = explore(f"{path}:Tensor", Cache(None), CATALOGUE.conventions).engine
    assert engine.gradient_arguments["unbroadcast"] == place
    experiment = prepare(CATALOGUE.page("skip-unbroadcast"), CATALOGUE, engine)
    changed = [line[1:].strip() for line in experiment.diff.splitlines() if line.startswith("+  ")]
    kept = {"on_the_target": "out.grad", "after_the_shape": "out.grad"}.get(design, "G(out.grad)")
    assert changed == [f"self.grad += {kept}", f"other.grad += {kept}"]
