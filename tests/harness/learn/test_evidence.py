"""What is bought is what the committed matrix says, and what runs."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from harness.core.message import Kind
from harness.engines.engine import find_engine
from harness.experiment.patching import prepare
from harness.learn.clues import (
    LOG,
    DiagnosticOnProbe,
    Evidence,
    HiddenBug,
    Suspect,
    all_suspects,
    investigate,
    pool_of,
)
from harness.pages.page import read_page
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.sound_page import sound_with, write_page

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


def alarms_in(evidence: Evidence) -> frozenset[DiagnosticOnProbe]:
    """The pairs of probe and diagnostic that the evidence shows to raise an alarm."""
    kind, _, probe = evidence.clue.partition(":")
    if kind == LOG:
        return frozenset((probe, name) for name in _alarms_in_log(evidence))
    if any(check.verdict == "alarm" for check in evidence.checks):
        return frozenset([(probe, kind)])
    return frozenset()


def _alarms_in_log(evidence: Evidence) -> Iterable[str]:
    """The diagnostics that raise an alarm on a log, or on its difference from the correct one."""
    if evidence.failure.kind is not Kind.NOTHING:
        yield "crash"
        return
    if any(curve.differs_from is not None for curve in evidence.curves):
        yield "trajectory"
    losses = [curve for curve in evidence.curves if curve.entry == "loss"]
    if any(_falls(curve.expected) and not _falls(curve.actual) for curve in losses):
        yield "loss-falls"


def _falls(losses: Sequence[float] | None) -> bool:
    return losses is not None and len(losses) > 1 and losses[-1] < losses[0]


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


def test_the_clues_of_the_par_show_what_the_pool_was_made_from() -> None:
    for level, seed in ((1, 3), (2, 3)):
        pool = pool_of(CATALOGUE, level)
        suspect = pool.choose(seed)
        compared(hidden(suspect.id), [clue.name for clue in pool.par(suspect)])


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
    page = read_page(write_page(tmp_path, sound_with("+$g", f"+$g / a * (1 + {error})")))
    experiment = prepare(page, CATALOGUE, find_engine())
    suspect = Suspect(page.id, page.front.family, 3, frozenset())
    bug = HiddenBug(suspect, experiment, CATALOGUE, open_cache())
    (gradient,) = investigate(bug, CLUES["grads:log"]).gradients
    assert gradient.differs is differs
