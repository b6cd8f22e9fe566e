"""What is bought is what the committed matrix says, and what runs."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.engines.engine import find_engine
from harness.experiment.exploration import explore
from harness.experiment.patching import prepare
from harness.learn.hunt.evidence import HiddenBug, alarms_in, hide, investigate, scope_of
from harness.learn.hunt.pool import Pool, Scope, Suspect, all_suspects, pool_of
from harness.pages.page import read_page
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.sound_page import spoilt, write_page

CLUES = pool_of(CATALOGUE, 1).clues
SUSPECTS = {suspect.id: suspect for suspect in all_suspects(CATALOGUE)}


def hidden(page: str) -> HiddenBug:
    experiment = prepare(CATALOGUE.page(page), CATALOGUE, find_engine())
    return HiddenBug(SUSPECTS[page], experiment, CATALOGUE, open_cache())


def compared(bug: HiddenBug, names: Iterable[str]) -> None:
    for name in names:
        clue = CLUES[name]
        evidence = investigate(bug, clue)
        assert alarms_in(evidence) & clue.shows == bug.suspect.caught & clue.shows, name
        assert (evidence.clue, evidence.passes) == (name, clue.passes)


def test_verdicts_are_those_of_the_committed_matrix() -> None:
    compared(
        hidden("skip-unbroadcast"),
        ["shape:add-new-axis", "shape:sub-new-axis", "crash:train-to-zero-residual", "finite:adam"],
    )


LOGS = ["log:adam", "log:train-to-zero-residual", "log:train-classifier"]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("skip-unbroadcast", LOGS),
        ("skip-second-parent", ["log:resume-training"]),  # which PyTorch cannot run
        pytest.param("no-zero-grad-in-loop", LOGS, marks=pytest.mark.slow),
        pytest.param("adam-t-starts-zero", LOGS, marks=pytest.mark.slow),
    ],
)
def test_a_log_shows_what_the_committed_matrix_says_of_it(page: str, names: list[str]) -> None:
    compared(hidden(page), names)


def test_the_cheapest_clues_show_what_the_pool_was_made_from() -> None:
    for level, seed in ((1, 3), (2, 3)):
        pool = pool_of(CATALOGUE, level)
        bug = hide(pool, seed, find_engine(), CATALOGUE, open_cache())
        assert bug
        assert bug.suspect == pool.ranked(seed)[0]
        compared(bug, [clue.name for clue in pool.cheapest(bug.suspect)])


def test_gradients_are_those_due_and_those_got() -> None:
    evidence = investigate(hidden("skip-unbroadcast"), CLUES["grads:add-new-axis"])
    a, b = evidence.gradients
    assert (a.leaf, a.differs, b.leaf, b.differs) == ("a", True, "b", False)
    assert a.expected
    assert a.actual
    assert (a.expected.shape, a.actual.shape) == ((3,), (4, 3))
    assert a.actual.numpy().sum(0) == pytest.approx(a.expected.numpy())


@pytest.mark.parametrize(("error", "differs"), [(1e-9, True), (1e-15, False)])
def test_a_gradient_differs_if_rounding_cannot_explain_it(
    error: float, differs: bool, tmp_path: Path
) -> None:
    page = read_page(write_page(tmp_path, spoilt("+$g", f"+$g / a * (1 + {error})")))
    experiment = prepare(page, CATALOGUE, find_engine())
    suspect = Suspect(page.id, page.front.family, 3, frozenset())
    bug = HiddenBug(suspect, experiment, CATALOGUE, open_cache())
    (gradient,) = investigate(bug, CLUES["grads:log"]).gradients
    assert gradient.differs is differs


def test_in_another_engine_the_cheapest_clues_show_the_same() -> None:
    target = f"{Path(__file__).parents[4] / 'tests' / 'engines' / 'closures.py'}:Tensor"
    engine = explore(target, open_cache(), CATALOGUE.conventions).engine
    # The engine adds gradients in place: where minigrad has a wrong shape, it crashes.
    breaks = frozenset(["tanh-uses-input", "pow-off-by-one", "skip-unbroadcast"])
    probes = frozenset(["tanh", "cube", "add-new-axis"])
    pool = pool_of(CATALOGUE, 1, scope=Scope(breaks, probes))
    assert {suspect.id for suspect in pool.suspects} == breaks
    assert {clue.probe for clue in pool.clues.values()} == probes
    found = set()
    for seed in range(6):
        bug = hide(pool, seed, engine, CATALOGUE, open_cache())
        assert bug
        found.add(bug.page.id)
        (clue,) = pool.cheapest(bug.suspect)
        assert alarms_in(investigate(bug, clue)) == bug.suspect.caught & clue.shows
    assert found == {"tanh-uses-input", "pow-off-by-one"}
    assert scope_of(find_engine(), CATALOGUE, open_cache()) is None


def test_an_empty_pool_hides_nothing() -> None:
    empty = Pool((), CLUES)
    assert hide(empty, 1, find_engine(), CATALOGUE, open_cache()) is None
