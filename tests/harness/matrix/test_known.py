"""What came of a page before is taken from the store, and only as long as nothing has changed."""

from pathlib import Path

import pytest

from harness.core.report import Report
from harness.experiment.baseline import Bench
from harness.experiment.lab import Experiment
from harness.matrix import Matrix, gather, known
from harness.matrix.gather import plan_matrix, try_all
from harness.matrix.verdict import judge_trials
from harness.pages.catalogue import Catalogue
from harness.runs.store import Store
from tests.harness.matrix.tiny import BY_HAND, DIAGNOSTICS, ENGINE, SQUARE, page, write_pages
from tests.harness.tiny import tiny_engine


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return write_pages(tmp_path / "pages")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.sqlite")


def matrix(catalogue: Catalogue, store: Store, engine: str = ENGINE) -> Matrix:
    plan = plan_matrix(Catalogue(catalogue.roots), tiny_engine(engine), store=store)
    return judge_trials(plan, try_all(plan, Bench(store, DIAGNOSTICS), processes=1), 0.0)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that are tried from now on, in turn."""
    seen: list[str] = []
    lab = gather.run_lab

    def noted(experiment: Experiment, bench: Bench) -> Report:
        seen.append(experiment.page.id)
        return lab(experiment, bench)

    monkeypatch.setattr(gather, "run_lab", noted)
    return seen


EVERYTHING = {"no-op", "sabotage", "squared-by-hand", "half", "flat", "unused"}


def test_nothing_is_tried_again_and_the_matrix_is_the_same(
    catalogue: Catalogue, store: Store, tried: list[str]
) -> None:
    first = matrix(catalogue, store)
    assert set(tried) == EVERYTHING
    tried.clear()
    assert matrix(catalogue, store) == first
    assert tried == []


def test_a_page_that_changes_is_tried_alone(
    catalogue: Catalogue, store: Store, tried: list[str]
) -> None:
    matrix(catalogue, store)
    changed = page("half", "break", "values", "@@ backward @@\n-2 * $x\n+3 * $x")
    (catalogue.roots[0] / "half.md").write_text(changed, encoding="utf-8")
    tried.clear()
    matrix(catalogue, store)
    assert tried == ["half"]


@pytest.mark.parametrize("what", ["the engine", "a shared probe", "our own code", "a library"])
def test_what_all_pages_depend_on_lets_all_be_tried(
    what: str,
    catalogue: Catalogue,
    store: Store,
    tried: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matrix(catalogue, store)
    tried.clear()
    engine = ENGINE
    if what == "the engine":
        engine += "\n# changed\n"
    if what == "a shared probe":
        changed = SQUARE.replace("[1.0, 2.0, 3.0]", "[1.0, 2.0]")
        (catalogue.roots[0] / "probes" / "squares.py").write_text(changed, encoding="utf-8")
    if what == "our own code":
        monkeypatch.setattr(known, "digest_of_code", lambda: "another")
    if what == "a library":
        monkeypatch.setattr(known, "_version", lambda _: "0.0.0")
    matrix(catalogue, store, engine)
    assert set(tried) == EVERYTHING


def test_what_another_day_may_bring_otherwise_is_not_kept(
    catalogue: Catalogue, store: Store, tried: list[str]
) -> None:
    ends = page("half", "break", "v", "@@ backward @@\n-2 * $x\n+__import__('os')._exit(3) or $x")
    (catalogue.roots[0] / "half.md").write_text(ends, encoding="utf-8")
    matrix(catalogue, store)
    tried.clear()
    matrix(catalogue, store)
    assert tried == ["half"]


def test_a_note_that_cannot_be_read_is_no_note(catalogue: Catalogue, store: Store) -> None:
    plan = plan_matrix(catalogue, tiny_engine(ENGINE))
    store.keep_notes({entry.key: b"garbage" for entry in plan.entries})
    assert matrix(catalogue, store) == matrix(catalogue, Store(None))


def test_what_is_kept_is_what_was_found(catalogue: Catalogue, store: Store) -> None:
    plan = plan_matrix(catalogue, tiny_engine(ENGINE), store=store)
    first = try_all(plan, Bench(store, DIAGNOSTICS, select=True), processes=1)
    again = plan_matrix(Catalogue(catalogue.roots), tiny_engine(ENGINE), store=store)
    assert all(isinstance(entry.experiment, known.Known) for entry in again.entries)
    assert try_all(again, Bench(store, DIAGNOSTICS, select=True), processes=1) == first


def test_a_run_that_never_comes_to_the_patch_is_kept_once_for_all_pages(
    catalogue: Catalogue, store: Store
) -> None:
    plan = plan_matrix(catalogue, tiny_engine(ENGINE), store=store)
    found = try_all(plan, Bench(store, DIAGNOSTICS, select=True), processes=1)
    common = known.recall_common(store, plan.base)
    assert {(run.probe, run.outcome) for run in common} == {
        ("square", "not-reached"),
        ("square-one", "not-reached"),
    }
    unused = next(tried.report for tried in found.breaks if tried.name == "unused")
    assert unused.runs == common
    kept = known.pack(known.Known(unused, {}, {}), common)
    assert len(kept) < len(known.pack(known.Known(unused, {}, {}), []))
    assert known.unpack(kept, common).report == unused


def test_without_the_common_reports_nothing_is_known(
    catalogue: Catalogue, store: Store, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix(catalogue, store)
    tried.clear()
    monkeypatch.setattr(gather, "recall_common", lambda *_: [])
    assert matrix(catalogue, store) == matrix(catalogue, Store(None))


def test_where_a_break_is_lost_that_nobody_catches_is_found_out_afterwards(
    catalogue: Catalogue, store: Store
) -> None:
    same = page("same", "break", "values", BY_HAND)
    (catalogue.roots[0] / "same.md").write_text(same, encoding="utf-8")
    plan = plan_matrix(Catalogue(catalogue.roots), tiny_engine(ENGINE), store=store)
    found = try_all(plan, Bench(store, DIAGNOSTICS, select=True), processes=1)
    rows = {row.break_: row for row in judge_trials(plan, found, 0.0).breaks}
    assert (rows["same"].fate, rows["half"].fate) == ("survived", "caught")
    assert rows["same"].why == "it ran, but here both formulas agree"
