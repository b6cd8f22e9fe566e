"""A break that an engine has is recognised by undoing it, whatever numbers it gives there."""

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.doctor.diagnosis import Diagnosis, diagnose
from harness.engines.engine import Dialect, Engine
from harness.experiment.baseline import Baseline
from harness.experiment.patching import put, undone
from harness.report.doctor import likeness_of
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE, part_of_catalogue
from tests.harness.engines.texts import SCALAR, SOUND, changed, written

ENGINES = Path(__file__).parents[2] / "engines"
BREAKS = ("forward-order", "preorder-append")


def diagnosed(path: str, probes: Sequence[str], breaks: Sequence[str] = BREAKS) -> Diagnosis:
    part = part_of_catalogue(probes=probes)
    vars(part).update(pages=(tuple(map(CATALOGUE.page, breaks)), ()))
    return diagnose(path, part, Baseline(open_cache(), diagnostics=()))


def foreign(text: str) -> Engine:
    return Engine("engine", Dialect("engine"), ENGINES, {"engine.py": text}, foreign=True)


TAPE = changed(
    ("in reversed(TAPE)", "in TAPE"), text=(ENGINES / "tape.py").read_text(encoding="utf-8")
)


def test_a_break_whose_numbers_depend_on_the_engine_is_named(tmp_path: Path) -> None:
    """Minigrad has no gradients at all with this break; on a tape, the last op still runs."""
    path = written(tmp_path, TAPE, "tape.py")
    probes = ("mul", "square", "reused-leaf")
    (defect,) = diagnosed(f"{path}:Tensor", probes, ["forward-order"]).defects
    assert [(item.break_, item.is_undone) for item in defect.alike] == [("forward-order", True)]
    assert str(likeness_of(defect)) == "is right once `forward-order` is undone"
    assert defect.site is not None
    assert "in TAPE" in TAPE.split("\n")[defect.site.line - 1]


def test_a_bug_that_no_break_has_is_not_undone(tmp_path: Path) -> None:
    """A product that scales its gradient, in an engine whose code a reversed patch matches."""
    text = changed(("lambda g: fold(g * a.data,", "lambda g: fold(1.5 * g * a.data,"), text=SOUND)
    found = diagnosed(written(tmp_path, text), ("mul", "add-same-shape"))
    assert found.defects
    assert not [item for defect in found.defects for item in defect.alike]


@pytest.mark.parametrize(
    ("text", "break_"),
    [
        (SOUND, "forward-order"),
        (SCALAR, "forward-order"),
        (SCALAR, "preorder-append"),
        ((ENGINES / "tape.py").read_text(encoding="utf-8"), "forward-order"),
        ((ENGINES / "closures.py").read_text(encoding="utf-8"), "mul-swapped-operands"),
    ],
)
def test_undoing_a_break_gives_back_the_engine(text: str, break_: str) -> None:
    """Among all places that it may be undone at, one at a time."""
    engine = foreign(text)
    broken = engine.patched(put(CATALOGUE.page(break_), engine))
    repaired = [patched.sources for patched in undone(CATALOGUE.page(break_), broken)]
    trees = [ast.dump(ast.parse(sources["engine.py"])) for sources in repaired]
    assert ast.dump(ast.parse(text)) in trees


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_line_is_that_of_the_engine_whatever_ends_its_lines(newline: str) -> None:
    engine = foreign(TAPE.replace("\n", newline))
    lines = {patched.line for patched in undone(CATALOGUE.page("forward-order"), engine)}
    loops = ("in TAPE", "in leaves.items()")
    rows = enumerate(TAPE.split("\n"), start=1)
    assert lines == {number for number, row in rows if any(loop in row for loop in loops)}


def test_a_patch_that_only_deletes_is_not_undone() -> None:
    assert [*undone(CATALOGUE.page("no-zero-grad-in-loop"), foreign(SCALAR))] == []


def test_a_gradient_that_is_not_cleared_is_a_finding(tmp_path: Path) -> None:
    """Also of an engine without subtraction and powers, whose rules read their operands late."""
    text = changed(
        ("self.grad = None\n\n    def backward", "pass\n\n    def backward"),
        text=(ENGINES / "central.py").read_text(encoding="utf-8"),
    )
    found = diagnosed(written(tmp_path, text), ("add-same-shape",), ["no-zero-grad-in-loop"])
    (defect,) = found.defects
    assert [item.break_ for item in defect.alike] == ["no-zero-grad-in-loop"]
    assert defect.probe == "cleared-between-passes"
    assert defect.site is not None
    assert defect.site.scope == "Tensor.null_grad"
