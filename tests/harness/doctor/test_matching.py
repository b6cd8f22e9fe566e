"""A break is named where it gives the same wrong numbers, and nowhere else."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.core.run import Failure, Run, pack
from harness.core.vocabulary import Phase
from harness.doctor.defects import Defect, find_defects
from harness.doctor.matching import BreakMatcher, Observed, same_result
from harness.doctor.roots import Feature, Root
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.exploration import explore
from harness.experiment.patching import put
from harness.pages.catalogue import Catalogue
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.texts import changed, written

ENGINES = Path(__file__).parents[2] / "engines"


BREAKS = ("assign-not-accumulate", "skip-unbroadcast", "mul-ignore-upstream", "sub-sign")
"""Two of them change code that the probes below run, and do not show what the engines do."""

PROBES = [
    CATALOGUE.shared_probes[name]
    for name in (
        *("add-same-shape", "add-new-axis", "add-stretched-axis", "mul", "mul-stretched-axis"),
        *("reused-leaf", "sub", "sub-broadcast"),
    )
]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """The shared probes and a few breaks."""
    bundled, folder = CATALOGUE.roots[0], tmp_path_factory.mktemp("breaks")
    shutil.copytree(bundled / "probes", folder / "probes")
    for name in (*BREAKS, "accumulate-in-place"):
        shutil.copy(CATALOGUE.path(name), folder)
    for name in ("catalogue.toml", "matrix.toml"):
        shutil.copy(bundled / name, folder)
    return Catalogue((folder,))


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return Baseline(open_cache(), diagnostics=())


def defects(path: str, few: Catalogue, baseline: Baseline) -> list[Defect]:
    engine = explore(path, baseline.cache, few.conventions).engine
    return find_defects(engine, PROBES, fit(engine, PROBES, baseline), few, baseline)


def named(found: list[Defect]) -> set[str]:
    return {each.break_ for defect in found for each in defect.alike}


@pytest.mark.parametrize(
    ("engine", "break_"),
    [
        ("closures.py", "skip-unbroadcast"),
        ("rebinding.py:Array", "assign-not-accumulate"),
        pytest.param("classes.py:Variable", "sub-sign", marks=pytest.mark.slow),
        pytest.param("tape.py:Tensor", "mul-ignore-upstream", marks=pytest.mark.slow),
    ],
)
def test_a_break_that_is_in_an_engine_is_recognised(
    engine: str, break_: str, few: Catalogue, baseline: Baseline, tmp_path: Path
) -> None:
    """The engine's source with the page's own patch, written to another file."""
    clean = explore(str(ENGINES / engine), baseline.cache, few.conventions).engine
    file, colon, name = engine.partition(":")
    path = written(tmp_path, put(few.page(break_), clean).sources[file], file)
    assert named(defects(f"{path}{colon}{name}", few, baseline)) == {break_}


def test_a_break_whose_page_states_nothing_about_the_probes_is_recognised(
    few: Catalogue, baseline: Baseline, tmp_path: Path
) -> None:
    """The page says nothing about `sub-broadcast`, but the committed matrix has it."""
    assert few.page("sub-sign").expected(None, "sub-broadcast", "weighted") is None
    path = ENGINES / "classes.py"
    text = changed(
        ("sum_to(-gy, x1.shape)", "sum_to(gy, x1.shape)"), text=path.read_text(encoding="utf-8")
    )
    engine = explore(written(tmp_path, text) + ":Variable", baseline.cache, few.conventions).engine
    probes = [few.shared_probes[name] for name in ("sub-broadcast", "add-same-shape")]
    fits = fit(engine, probes, baseline)
    assert named(find_defects(engine, probes, fits, few, baseline)) == {"sub-sign"}


def test_a_bug_that_no_break_has_is_not_named_after_one(
    few: Catalogue, baseline: Baseline, tmp_path: Path
) -> None:
    text = changed(("lambda g: fold(g * a.data,", "lambda g: fold(1.5 * g * a.data,"))
    (defect,) = defects(written(tmp_path, text), few, baseline)
    assert (defect.feature, defect.probe, defect.alike) == (Feature("mul"), "mul", [])
    assert defect.site is not None
    assert (defect.site.file, defect.site.scope) == ("engine.py", "Tensor.__mul__")
    assert set(defect.probes) == {"mul-stretched-axis", "reused-leaf"}


def run(gradient: object, failure: Failure | None = None) -> Run:
    packed = None if gradient is None else pack(gradient)
    return Run("p", "uniform", output=pack(1.0), gradients={"a": packed}, failure=failure)


def test_numbers_are_the_same_up_to_rounding_in_the_engines_precision() -> None:
    third = np.array([1 / 3])
    assert same_result(run(third), run(third * (1 + 1e-15)))
    assert same_result(run(third), run(third.astype(np.float32)))
    assert not same_result(run(third), run(third * (1 + 1e-6)))
    assert not same_result(run(third), run([third]))


def test_a_gradient_that_never_arrived_may_be_a_buffer_of_zeros() -> None:
    assert same_result(run(None), run([0.0, 0.0]))
    assert not same_result(run(None), run([0.0, 1.0]))


def test_failures_are_the_same_in_one_phase_and_of_one_type() -> None:
    failure = Failure(Phase.BACKWARD, "ValueError", "shapes")
    assert same_result(run(None, failure), run(None, Failure(Phase.BACKWARD, "ValueError", "x")))
    assert not same_result(run(None, failure), run(None))
    assert not same_result(run(None, failure), run(None, Failure(Phase.FORWARD, "ValueError", "")))


SUBS = ("sub", "sub-broadcast")
PROBE_NAMES = {probe.name: probe for probe in PROBES}


def explained(
    few: Catalogue, baseline: Baseline, alike: Sequence[str], others: Sequence[str], root: Root
) -> list[str]:
    """The breaks named for an engine that is wrong as `sub-sign` on some probes, and on others."""
    clean = find_engine()
    correct = {pair: key.run for pair, key in baseline.clean(clean, PROBES).items()}
    broken = clean.patched(put(few.page("sub-sign"), clean))
    runs = baseline.broken(clean, broken, [PROBE_NAMES[name] for name in alike])
    wrong = {(run.probe, run.loss): run for run in runs}
    wrong |= {pair: _shifted(run) for pair, run in correct.items() if pair[0] in others}
    observed = Observed(clean, PROBE_NAMES, {*alike, *others}, correct | wrong, correct)
    explanation = BreakMatcher(observed, few, baseline).explain(root)
    return [page.id for page in explanation.pages]


def test_a_break_must_explain_half_of_the_findings_of_a_root(
    few: Catalogue, baseline: Baseline
) -> None:
    others = ("mul", "reused-leaf", "add-new-axis")
    assert explained(few, baseline, SUBS, others, Root(None, (*SUBS, *others[:2]))) == ["sub-sign"]
    assert explained(few, baseline, SUBS, others, Root(None, (*SUBS, *others))) == []


def test_a_break_must_be_right_where_the_engine_is_right(
    few: Catalogue, baseline: Baseline
) -> None:
    assert explained(few, baseline, SUBS, (), Root(None, SUBS)) == ["sub-sign"]
    assert explained(few, baseline, SUBS[1:], (), Root(None, SUBS[1:])) == []


def _shifted(run: Run) -> Run:
    gradients = {name: pack(array.numpy() + 1) for name, array in run.gradients.items() if array}
    return msgspec.structs.replace(run, gradients=gradients)
