"""A copy of minigrad under another name: its losses, data and refusals are examined, too."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor.defects import find_defects
from harness.doctor.diagnosis import called_as_minigrad
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.runs.cache import open_cache
from tests.engines.copy_table import ADAPTED, copy
from tests.harness.bundled import CATALOGUE, part_of_catalogue
from tests.harness.engines.texts import SOUND

BREAKS = ("last-batch-counts-full", "xent-negative-target", "relu-in-place")


def test_an_engine_with_every_name_of_minigrad_is_called_without_an_adapter(
    tmp_path: Path,
) -> None:
    assert copy(tmp_path).dialect.kind is None
    other = Engine("engine", ADAPTED, tmp_path, {"engine.py": SOUND}, foreign=True)
    assert called_as_minigrad(other) is other


def test_a_copy_whose_tensors_have_other_names_keeps_its_adapter(tmp_path: Path) -> None:
    renamed = replace(ADAPTED, gradient="t.gradient")
    other = replace(copy(tmp_path), dialect=renamed)
    assert called_as_minigrad(other) is other


@pytest.mark.parametrize("break_", BREAKS)
def test_breaks_of_data_refusals_and_forward_passes_are_named(break_: str, tmp_path: Path) -> None:
    part, baseline = part_of_catalogue(BREAKS), Baseline(open_cache(), diagnostics=())
    probes = [probe for page in part.pages[0] for probe in page.probes]
    correct = fit(copy(tmp_path / "clean"), probes, baseline)
    assert not [item for item in correct.values() if item.verdict == "bug"]
    engine = copy(tmp_path, break_)
    fits = fit(engine, probes, baseline)
    (defect,) = find_defects(engine, probes, fits, part, baseline)
    assert [item.break_ for item in defect.alike] == [break_]
    assert defect.probe in {probe.name for probe in CATALOGUE.page(break_).probes}
