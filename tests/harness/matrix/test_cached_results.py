"""Evaluations come from the cache as long as nothing that they depend on has changed."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from harness.core.errors import EnvironmentProblem
from harness.core.report import Report
from harness.engines import engine as engine_module
from harness.experiment import baseline as baseline_module
from harness.experiment.baseline import Baseline
from harness.experiment.patching import Experiment
from harness.matrix import plan as plan_module
from harness.matrix import verdict
from harness.matrix.evaluation import Evaluation, cached_common, pack, unpack
from harness.matrix.plan import choose, evaluate_all, plan_matrix
from harness.matrix.records import Matrix
from harness.matrix.verdict import judge_matrix
from harness.pages import catalogue as catalogue_module
from harness.pages.catalogue import Catalogue
from harness.runs import cache
from harness.runs.cache import Cache
from tests.harness.command import harness
from tests.harness.matrix.tiny import BY_HAND, DIAGNOSTICS, ENGINE, SQUARE, page, write_pages
from tests.harness.tiny import tiny_engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages, and of a cache in which all of them are evaluated."""
    folder = tmp_path_factory.mktemp("evaluated")
    matrix(write_pages(folder / "pages"), Cache(folder / "runs.sqlite"))
    return folder


@pytest.fixture
def catalogue(folder: Path) -> Catalogue:
    """The pages as they were written first, always in the same place, which is in their keys."""
    shutil.rmtree(folder / "pages")
    return write_pages(folder / "pages")


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "runs.sqlite")


@pytest.fixture
def filled(folder: Path, tmp_path: Path) -> Cache:
    """A copy of the cache in which all pages are evaluated."""
    for file in folder.glob("runs.sqlite*"):
        shutil.copy(file, tmp_path)
    return Cache(tmp_path / "runs.sqlite")


def matrix(catalogue: Catalogue, store: Cache, engine: str = ENGINE) -> Matrix:
    plan = plan_matrix(choose(Catalogue(catalogue.roots), tiny_engine(engine)), store)
    return judge_matrix(plan, evaluate_all(plan, Baseline(store, DIAGNOSTICS), processes=1), 0.0)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that are evaluated from now on, in order."""
    seen: list[str] = []
    lab = plan_module.run_lab

    def noted(experiment: Experiment, baseline: Baseline) -> Report:
        seen.append(experiment.page.id)
        return lab(experiment, baseline)

    monkeypatch.setattr(plan_module, "run_lab", noted)
    return seen


EVERYTHING = {"no-op", "sabotage", "squared-by-hand", "half", "flat", "unused"}


def test_nothing_is_tried_again_and_the_matrix_is_the_same(
    catalogue: Catalogue, store: Cache, evaluated: list[str]
) -> None:
    first = matrix(catalogue, store)
    assert set(evaluated) == EVERYTHING
    evaluated.clear()
    assert matrix(catalogue, store) == first
    assert evaluated == []


def test_a_page_that_changes_is_tried_alone(
    catalogue: Catalogue, filled: Cache, evaluated: list[str]
) -> None:
    changed = page("half", "break", "values", "@@ backward @@\n-2 * $x\n+3 * $x")
    (catalogue.roots[0] / "half.md").write_text(changed, encoding="utf-8")
    matrix(catalogue, filled)
    assert evaluated == ["half"]


@pytest.mark.parametrize("what", ["the engine", "a shared probe", "our own code", "a library"])
def test_what_all_pages_depend_on_lets_all_be_tried(
    what: str,
    catalogue: Catalogue,
    filled: Cache,
    evaluated: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = ENGINE
    if what == "the engine":
        engine += "\n# changed\n"
    if what == "a shared probe":
        changed = SQUARE.replace("[1.0, 2.0, 3.0]", "[1.0, 2.0]")
        (catalogue.roots[0] / "probes" / "squares.py").write_text(changed, encoding="utf-8")
    if what == "our own code":
        monkeypatch.setattr(cache, "code_digest", lambda _rooms: "another")
        cache._environment.cache_clear()
    if what == "a library":
        monkeypatch.setattr(cache, "_version", lambda _: (True, "0.0.0"))
        cache._environment.cache_clear()
    matrix(catalogue, filled, engine)
    assert set(evaluated) == EVERYTHING
    cache._environment.cache_clear()


def test_what_another_day_may_bring_otherwise_is_not_kept(
    catalogue: Catalogue, filled: Cache, evaluated: list[str]
) -> None:
    ends = page("half", "break", "v", "@@ backward @@\n-2 * $x\n+__import__('os')._exit(3) or $x")
    (catalogue.roots[0] / "half.md").write_text(ends, encoding="utf-8")
    matrix(catalogue, filled)
    evaluated.clear()
    matrix(catalogue, filled)
    assert evaluated == ["half"]


def test_a_row_that_cannot_be_decoded_is_a_miss(catalogue: Catalogue, store: Cache) -> None:
    plan = plan_matrix(choose(catalogue, tiny_engine(ENGINE)), Cache(None))
    store._database.write({entry.key: b"garbage" for entry in plan.entries})
    assert matrix(catalogue, store) == matrix(catalogue, Cache(None))


def test_what_is_kept_is_what_was_found(catalogue: Catalogue, store: Cache) -> None:
    plan = plan_matrix(choose(catalogue, tiny_engine(ENGINE)), store)
    first = evaluate_all(plan, Baseline(store, DIAGNOSTICS, select=True), processes=1)
    again = plan_matrix(choose(Catalogue(catalogue.roots), tiny_engine(ENGINE)), store)
    assert all(isinstance(entry.work, Evaluation) for entry in again.entries)
    assert evaluate_all(again, Baseline(store, DIAGNOSTICS, select=True), processes=1) == first


def test_a_run_that_never_comes_to_the_patch_is_kept_once_for_all_pages(
    catalogue: Catalogue, store: Cache
) -> None:
    plan = plan_matrix(choose(catalogue, tiny_engine(ENGINE)), store)
    found = evaluate_all(plan, Baseline(store, DIAGNOSTICS, select=True), processes=1)
    common = cached_common(store, plan.choice.shared_key)
    assert {(run.probe, run.outcome) for run in common} == {
        ("square", "not-reached"),
        ("square-one", "not-reached"),
    }
    unused = next(evaluation for evaluation in found.breaks if evaluation.name == "unused")
    assert unused.report.runs == common
    stored = pack(unused, common)
    assert stored.runs == [*range(len(common))]
    assert pack(unused, []).runs == common
    assert unpack(stored, common) == unused


def test_without_the_common_reports_nothing_is_known(
    catalogue: Catalogue, filled: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "cached_common", lambda *_: [])
    assert matrix(catalogue, filled) == matrix(catalogue, Cache(None))


def test_where_a_break_is_lost_that_nobody_catches_is_found_out_afterwards(
    catalogue: Catalogue, store: Cache
) -> None:
    same = page("same", "break", "values", BY_HAND)
    (catalogue.roots[0] / "same.md").write_text(same, encoding="utf-8")
    plan = plan_matrix(choose(Catalogue(catalogue.roots), tiny_engine(ENGINE)), store)
    found = evaluate_all(plan, Baseline(store, DIAGNOSTICS, select=True), processes=1)
    rows = {row.break_: row for row in judge_matrix(plan, found, 0.0).breaks}
    assert (rows["same"].fate, rows["half"].fate) == ("survived", "caught")
    assert rows["same"].why == "hidden here: on this input all numbers are right"


def test_an_unchanged_matrix_needs_no_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed page, or a changed committed matrix, is judged again."""
    pages = write_pages(tmp_path / "pages")
    monkeypatch.setattr(catalogue_module, "open_catalogue", lambda _: Catalogue(pages.roots))
    monkeypatch.setattr(engine_module, "find_engine", lambda: tiny_engine(ENGINE))
    monkeypatch.setattr(baseline_module, "Baseline", partial(Baseline, diagnostics=DIAGNOSTICS))
    command = "matrix", "half", "--json"
    first = harness(*command)

    def judged(*_: object, **__: object) -> NoReturn:
        raise EnvironmentProblem("judged again", "nothing")

    monkeypatch.setattr(verdict, "judge_matrix", judged)
    again = harness(*command)
    assert (again.returncode, again.stderr) == (first.returncode, first.stderr)
    assert json.loads(again.stdout) | {"seconds": 0} == json.loads(first.stdout) | {"seconds": 0}
    (tmp_path / "pages" / "matrix.toml").write_text("", encoding="utf-8")
    assert harness(*command).returncode == 3
    (tmp_path / "pages" / "matrix.toml").unlink()
    assert harness(*command).returncode == first.returncode
    page = tmp_path / "pages" / "half.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert harness(*command).returncode == 3
