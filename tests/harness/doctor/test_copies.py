"""A copy of minigrad under another name: its losses, data and refusals are examined, too."""

import re
from pathlib import Path

import pytest

from harness.doctor.defects import find_defects
from harness.doctor.diagnosis import called_as_minigrad
from harness.engines.engine import Dialect, Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.patching import put
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE, part_of_catalogue
from tests.harness.engines.texts import SOUND, written

ADAPTED = Dialect("copied", leaf="Tensor(data, requires_grad=True)", kind="arrays")
BREAKS = ("last-batch-counts-full", "xent-negative-target", "relu-in-place")


def copy(folder: Path, break_: str | None = None) -> Engine:
    ours = find_engine()
    sources = put(CATALOGUE.page(break_), ours).sources if break_ else ours.sources
    renamed = {
        re.sub("^minigrad/", "copied/", file): re.sub(r"\bminigrad\b", "copied", text)
        for file, text in sources.items()
    }
    for file, text in renamed.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        written(folder, text, file)
    return called_as_minigrad(Engine("copied", ADAPTED, folder, renamed, foreign=True))


def test_an_engine_with_every_name_of_minigrad_is_called_without_an_adapter(
    tmp_path: Path,
) -> None:
    assert copy(tmp_path).dialect.kind is None
    other = Engine("engine", ADAPTED, tmp_path, {"engine.py": SOUND}, foreign=True)
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
