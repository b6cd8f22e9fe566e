"""The diagnosis as a whole: it holds together, and the settings that it prints can be used."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from harness.doctor.diagnosis import Applicability, Diagnosis, diagnose, settings_of
from harness.doctor.roots import Feature, Use
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import SECOND_BACKWARD
from harness.experiment.exploration import explore
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.report.doctor import accumulation, storage, unbroadcasting
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE, part_of_catalogue
from tests.harness.engines.texts import SCALAR, changed, written

ENGINES = Path(__file__).parents[2] / "engines"


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    """One for all: what our own engine answers is asked for once."""
    return Baseline(open_cache())


PAGES = (
    *("skip-unbroadcast", "skip-unbroadcast-matmul", "matmul-t-instead-of-swapaxes"),
    *("visited-missing", "relu-identity-grad", "max-ties-all-ones", "adam-betas-swapped"),
)
"""Breaks that do or do not apply to the engine; two of them behave like its bug."""
PROBES = (
    *("powers", "cube", "square", "first-power", "mul", "sub-new-axis", "div", "exp"),
    *("matmul-square", "matmul-vectors", "square-transpose", "sum-rows", "module-dropout"),
)
"""Probes that show a bug of the engine, or none, or use something that it lacks."""
PART = part_of_catalogue(PAGES, PROBES)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(PART, id="a part"),
        pytest.param(CATALOGUE, id="all", marks=pytest.mark.slow),
    ],
)
def catalogue(request: pytest.FixtureRequest) -> Catalogue:
    """Some of the pages and shared probes, or all of them."""
    return cast("Catalogue", request.param)


@pytest.fixture(scope="module")
def closures(baseline: Baseline, catalogue: Catalogue) -> Diagnosis:
    """The diagnosis of an engine of closures that adds in place."""
    return diagnose(str(ENGINES / "closures.py"), catalogue, baseline)


def test_every_shared_probe_has_a_verdict(closures: Diagnosis, catalogue: Catalogue) -> None:
    assert {each.probe for each in closures.probes} == set(catalogue.shared_probes)
    assert all(str(each.reason) for each in closures.probes if each.verdict != "fits")


def test_every_break_is_tried_or_has_a_reason(closures: Diagnosis, catalogue: Catalogue) -> None:
    wanted = {p.id for p in catalogue.pages[0] if isinstance(p.front, Break)}
    assert {each.break_ for each in closures.breaks} == wanted
    for each in closures.breaks:
        assert bool(each.sites and each.probes) != bool(each.reason), each.break_
    untried = {each.break_ for each in closures.breaks if each.kind is Applicability.UNTRIED}
    assert "adam-betas-swapped" in untried
    assert not untried & {each.break_ for each in closures.usable}


def test_the_first_break_has_its_sites_and_its_probes(closures: Diagnosis) -> None:
    first = next(each for each in closures.breaks if each.break_ == "skip-unbroadcast")
    assert {(site.file, site.scope) for site in first.sites} == {
        ("closures.py", "Tensor.__add__._backward")
    }
    assert {"add-new-axis", "add-stretched-axis"} <= set(first.probes)


def test_the_findings_are_in_the_diagnosis(closures: Diagnosis, catalogue: Catalogue) -> None:
    assert (closures.engine, closures.files, closures.kind) == ("closures:Tensor", 1, "arrays")
    assert closures.interface["backward"] == "(t * Tensor(cotangent)).sum().backward()"
    lines = (accumulation, unbroadcasting, storage)
    said = "\n".join(line for words in lines for line in words(closures))
    second = (
        "wrong gradients" if catalogue is CATALOGUE else "into the same array"
    )  # no probe of it
    for words in ("a buffer of zeros", second, "crashes where it is added"):
        assert words in said
    assert "each op calls it: add in `Tensor.__add__.<locals>._backward`" in said
    assert "reads the value of its operand when it runs" in said


def test_bugs_are_those_that_can_be_seen_by_hand(closures: Diagnosis) -> None:
    """Its products are for two axes: with three, `.T` turns round all of them; 0 * 0**-1 is NaN."""
    single = [each for each in closures.probes if each.kind != SECOND_BACKWARD]
    assert {each.probe for each in single if each.verdict == "bug"} == {
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
    matmul, power, *passes = closures.defects
    assert [defect.feature for defect in passes] in ([], [Feature("", Use.SECOND_BACKWARD)])
    assert (matmul.feature, power.feature) == (Feature("matmul"), Feature("pow"))
    assert {"matmul-batch", "batch-from-the-left"} <= {matmul.probe, *matmul.probes}
    assert power.probe == "powers"
    (alike,) = matmul.alike  # its rule does both of these
    assert alike.break_ in ("matmul-t-instead-of-swapaxes", "skip-unbroadcast-matmul")
    assert power.alike == []
    listed = [name for defect in closures.defects for name in (defect.probe, *defect.probes)]
    assert sorted(listed) == sorted(bug.probe for bug in closures.bugs)
    scopes = [defect.site and defect.site.scope for defect in (matmul, power)]
    assert scopes == ["Tensor.__matmul__._backward", "Tensor.__pow__._backward"]


SUMS = part_of_catalogue(
    probes=[
        name
        for name in CATALOGUE.shared_probes
        if name.startswith(("add-", "mul-", "affine", "sum-rows", "relu-away"))
    ]
)
"""The probes that broadcast a sum or a product, and some others."""


def test_a_central_unbroadcasting_is_called_one(baseline: Baseline) -> None:
    found = diagnose(str(ENGINES / "central.py"), SUMS, baseline)
    assert any("is central" in line for line in unbroadcasting(found))
    assert any("`Operation.backward`" in line for line in unbroadcasting(found))


def test_a_diagnosis_of_padded_ranks_calls_no_shape_a_bug(
    baseline: Baseline, tmp_path: Path
) -> None:
    padding = changed(("np.array(data, dtype=float)", "np.atleast_2d(np.array(data, float))"))
    found = diagnose(written(tmp_path, padding), SUMS, baseline)
    assert any("(3,) is stored as (1, 3)" in line for line in storage(found))
    kept = {each.probe for each in found.bugs}
    assert "sum-rows" in kept  # a matrix is kept, and its sum is not what the rule takes it for
    assert not [name for name in kept if name.startswith(("add", "mul", "affine"))]
    fits = {each.probe: each.verdict for each in found.probes}
    assert (fits["add-stretched-axis"], fits["add-new-axis"]) == ("fits", "differs")


@pytest.mark.parametrize(
    "probes",
    [
        pytest.param(part_of_catalogue(probes=PART.shared_probes), id="a part"),
        pytest.param(
            part_of_catalogue(probes=CATALOGUE.shared_probes), id="all", marks=pytest.mark.slow
        ),
    ],
)
def test_numbers_have_no_shapes_to_sum(
    baseline: Baseline, probes: Catalogue, tmp_path: Path
) -> None:
    found = diagnose(written(tmp_path, SCALAR), probes, baseline)
    assert found.kind == "scalars"
    assert [*unbroadcasting(found)] == ["none: a number has no shape"]
    assert all(bug.kind == SECOND_BACKWARD for bug in found.bugs)


def test_a_flaw_of_the_unbroadcasting_is_reported(baseline: Baseline, tmp_path: Path) -> None:
    text = changed(("g.sum(axis=ones, keepdims=True)", "g.sum(axis=ones)"))
    found = diagnose(written(tmp_path, text), SUMS, baseline)
    flaw = "`fold` is wrong: (4, 3) to (1, 3): the result has shape (3,)"
    assert flaw in unbroadcasting(found)
    assert "add-stretched-axis" in {each.probe for each in found.bugs}


OTHERS = ("central", "rebinding", "stored_first", "tape")
"""Engines whose settings have the same keys as those of the engines in the default tier."""


@pytest.mark.parametrize(
    "engine",
    [
        *("closures", "classes", "inline", "functional"),
        *(pytest.param(engine, marks=pytest.mark.slow) for engine in OTHERS),
    ],
)
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


@pytest.mark.slow
def test_an_engine_of_numbers_that_assigns_gradients_is_told_so(
    tmp_path: Path, baseline: Baseline
) -> None:
    """Findings that arrays of objects show are left out, also where the break explains them."""
    assigning = changed((".grad += ", ".grad = "), text=SCALAR)
    path = written(tmp_path, assigning)
    found = diagnose(path, CATALOGUE, baseline)
    alike = {page.break_ for defect in found.defects for page in defect.alike}
    assert (found.kind, "assign-not-accumulate" in alike) == ("scalars", True)
