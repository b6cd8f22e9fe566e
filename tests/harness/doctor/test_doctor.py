"""The diagnosis as a whole: it holds together, and the settings that it prints can be used."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor.diagnosis import UNJUDGED, Diagnosis, diagnose, settings_of
from harness.experiment.baseline import Baseline
from harness.experiment.exploration import explore
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE, bundled_pages
from tests.harness.engines.texts import SCALAR, changed, written

ENGINES = Path(__file__).parents[2] / "engines"


@pytest.fixture(scope="module")
def bench() -> Baseline:
    """One for all: what our own engine answers is asked for once."""
    return Baseline(open_cache())


@pytest.fixture(scope="module")
def closures(bench: Baseline) -> Diagnosis:
    """The diagnosis of an engine of closures that adds in place."""
    return diagnose(str(ENGINES / "closures.py"), CATALOGUE, bench)


@pytest.fixture(scope="module")
def no_pages(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """The shared probes without any page, for what does not depend on the breaks."""
    bundled, folder = CATALOGUE.roots[0], tmp_path_factory.mktemp("breaks")
    shutil.copytree(bundled / "probes", folder / "probes")
    shutil.copy(bundled / "catalogue.toml", folder)
    return Catalogue((folder,))


@pytest.fixture(scope="module")
def few_probes(folder_of_few_pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Some of the shared probes, for tests that do not depend on the others."""
    folder = tmp_path_factory.mktemp("few")
    shutil.copytree(folder_of_few_pages / "probes", folder / "probes")
    shutil.copy(folder_of_few_pages / "catalogue.toml", folder)
    return Catalogue((folder,))


def test_every_shared_probe_has_a_verdict(closures: Diagnosis) -> None:
    assert {each.probe for each in closures.probes} == set(CATALOGUE.shared_probes)
    assert all(str(each.reason) for each in closures.probes if each.verdict != "fits")


def test_every_break_is_tried_or_has_a_reason(closures: Diagnosis) -> None:
    wanted = {p.id for p in bundled_pages() if isinstance(p.front, Break)}
    assert {each.break_ for each in closures.breaks} == wanted
    for each in closures.breaks:
        assert bool(each.sites and each.probes) != bool(each.reason), each.break_
    untried = {each.break_ for each in closures.breaks if each.reason == UNJUDGED}
    assert "adam-betas-swapped" in untried
    assert not untried & {each.break_ for each in closures.usable}


def test_the_first_break_has_its_sites_and_its_probes(closures: Diagnosis) -> None:
    first = next(each for each in closures.breaks if each.break_ == "skip-unbroadcast")
    assert {(site.file, site.scope) for site in first.sites} == {
        ("closures.py", "Tensor.__add__._backward")
    }
    assert {"add-new-axis", "add-stretched-axis"} <= set(first.probes)


def test_the_findings_are_in_the_diagnosis(closures: Diagnosis) -> None:
    assert (closures.engine, closures.files, closures.kind) == ("closures:Tensor", 1, "arrays")
    assert closures.interface["backward"] == "(t * Tensor(cotangent)).sum().backward()"
    said = "\n".join([*closures.accumulation, *closures.unbroadcasting, *closures.storage])
    for words in ("a buffer of zeros", "into the same array", "crashes where it is added"):
        assert words in said
    assert "each op calls it: add in `Tensor.__add__.<locals>._backward`" in said
    assert "reads the value of its operand when it runs" in said


def test_bugs_are_those_that_can_be_seen_by_hand(closures: Diagnosis) -> None:
    """Its products are for two axes: with three, `.T` turns round all of them; 0 * 0**-1 is NaN."""
    assert {each.probe for each in closures.probes if each.verdict == "bug"} == {
        *("matmul-batch", "matmul-cube", "matmul-vector", "matmul-vectors", "shared-matrix"),
        "powers",
    }


def test_own_probes_of_pages_show_bugs_too(closures: Diagnosis) -> None:
    own = {each.probe for each in closures.own}
    assert own >= {"batch-from-the-left", "matmul-created-and-stretched"}
    assert own == {each.probe for each in closures.bugs} - {each.probe for each in closures.probes}


def test_bugs_of_one_op_are_one_defect_with_its_place_and_the_break_like_it(
    closures: Diagnosis,
) -> None:
    matmul, power = closures.defects
    assert (str(matmul.root), str(power.root)) == ("`matmul`", "`pow`")
    assert {"matmul-batch", "batch-from-the-left"} <= {matmul.probe, *matmul.probes}
    assert power.probe == "powers"
    (alike,) = matmul.alike  # its rule does both of these
    assert alike.break_ in ("matmul-t-instead-of-swapaxes", "skip-unbroadcast-matmul")
    assert power.alike == []
    listed = [name for defect in closures.defects for name in (defect.probe, *defect.probes)]
    assert sorted(listed) == sorted(bug.probe for bug in closures.bugs)
    scopes = [defect.site and defect.site.scope for defect in (matmul, power)]
    assert scopes == ["Tensor.__matmul__._backward", "Tensor.__pow__._backward"]


def test_a_central_unbroadcasting_is_called_one(bench: Baseline, few_probes: Catalogue) -> None:
    found = diagnose(str(ENGINES / "central.py"), few_probes, bench)
    assert any("is central" in line for line in found.unbroadcasting)
    assert any("`Operation.backward`" in line for line in found.unbroadcasting)


def test_a_diagnosis_of_padded_ranks_calls_no_shape_a_bug(
    bench: Baseline, no_pages: Catalogue, tmp_path: Path
) -> None:
    padding = changed(("np.array(data, dtype=float)", "np.atleast_2d(np.array(data, float))"))
    found = diagnose(written(tmp_path, padding), no_pages, bench)
    assert any("(3,) is stored as (1, 3)" in line for line in found.storage)
    kept = {each.probe for each in found.bugs}
    assert "sum-rows" in kept  # a matrix is kept, and its sum is not what the rule takes it for
    assert not [name for name in kept if name.startswith(("add", "mul", "affine"))]
    fits = {each.probe: each.verdict for each in found.probes}
    assert (fits["add-stretched-axis"], fits["add-new-axis"]) == ("fits", "differs")


def test_numbers_have_no_shapes_to_sum(
    bench: Baseline, no_pages: Catalogue, tmp_path: Path
) -> None:
    found = diagnose(written(tmp_path, SCALAR), no_pages, bench)
    assert found.kind == "scalars"
    assert found.unbroadcasting == ["none: a number has no shape"]
    assert found.bugs == []


def test_a_flaw_of_the_unbroadcasting_is_reported(
    bench: Baseline, few_probes: Catalogue, tmp_path: Path
) -> None:
    text = changed(("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"))
    found = diagnose(written(tmp_path, text), few_probes, bench)
    flaw = "`fold` is wrong: (4, 3) to (1, 3): the result has shape (3,)"
    assert flaw in found.unbroadcasting
    assert "add-stretched-axis" in {each.probe for each in found.bugs}


ROUND = ["closures", "central", "classes", "inline", "rebinding", "stored_first", "tape"]


@pytest.mark.parametrize("engine", [*ROUND, "functional"])
def test_the_settings_to_keep_can_be_kept(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written to a file, they lead to the same engine, spoken to in the same way."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, (ENGINES / f"{engine}.py").read_text(encoding="utf-8"), f"lib/{engine}.py")
    first = explore(f"lib/{engine}.py", Cache(None), CATALOGUE.conventions)
    path = written(tmp_path, settings_of(first), "harness.toml")
    again = explore(path, Cache(None), CATALOGUE.conventions)
    assert replace(again.engine.dialect, names={}) == first.engine.dialect
    assert dict(again.engine.names) == dict(first.engine.names)
    assert (again.name, again.engine.like) == (first.name, first.engine.like)
    assert again.engine.sources == first.engine.sources
    assert settings_of(again) == settings_of(first)
