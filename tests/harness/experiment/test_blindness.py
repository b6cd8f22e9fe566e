"""The silent probes on which the assertion that a page recommends holds all the same."""

from typing import Any

import numpy as np
import pytest

from harness.answer_key.outcome import Judgement
from harness.core.message import EMPTY
from harness.core.run import Run, pack
from harness.core.vocabulary import Loss
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, CleanRun
from harness.experiment.description import JudgedRun
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.experiment.statements import blind_probes
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE

ROW, WIDE, HALF = np.zeros(3), np.zeros((4, 3)), np.zeros(3, "float32")
SHAPES = "assert leaf.grad.shape == leaf.shape"


def run_of(probe: str, loss: Loss | None = None, **gradients: Any) -> Run:
    leaves = {name: pack(ROW) for name in gradients}
    arrays = {name: None if got is None else pack(got) for name, got in gradients.items()}
    return Run(probe, loss, leaves=leaves, gradients=arrays)


def blind(assertion: str, *broken: Run, clean: list[Run] | None = None) -> list[str]:
    right = clean or [run_of(r.probe, r.loss, **dict.fromkeys(r.leaves, ROW)) for r in broken]
    pairs = zip(broken, right, strict=True)
    silent = Judgement("silent-corruption", None, EMPTY)
    judged = [JudgedRun(run, CleanRun(key, {}, {}), silent) for run, key in pairs]
    return blind_probes(assertion, judged)


@pytest.mark.parametrize(
    ("assertion", "seen"),
    [
        (SHAPES, WIDE),
        ("assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)", WIDE),
        ("assert x.grad.dtype == x.dtype", HALF),
        ("assert x.grad is not None", None),
        (SHAPES, None),
    ],
)
def test_it_is_blind_to_a_probe_if_it_holds_for_every_leaf(assertion: str, seen: Any) -> None:
    assert blind(assertion, run_of("p", a=ROW, b=seen), run_of("q", a=ROW)) == ["q"]


def test_it_is_not_blind_if_it_fails_with_one_of_the_losses() -> None:
    uniform, weighted = run_of("p", "uniform", a=ROW), run_of("p", "weighted", a=WIDE)
    assert blind(SHAPES, uniform, weighted) == []
    assert blind(SHAPES, uniform) == ["p"]


def test_a_leaf_for_which_it_does_not_hold_on_the_unbroken_engine_does_not_count() -> None:
    broken, clean = run_of("p", a=ROW, b=None), run_of("p", a=ROW, b=None)
    assert blind(SHAPES, broken, clean=[clean]) == ["p"]
    nothing = run_of("p", a=None)
    assert blind("assert x.grad is not None", nothing, clean=[nothing]) == []


@pytest.mark.parametrize(
    "assertion",
    [
        "assert (x.grad == 2).all()",
        "assert loss == 0",
        "assert w.grad[0] == 1",
        "assert w.dtype == before",
        "assert tape.gradient(y, w).shape == w.shape",
        "assert x.grad is None",
    ],
)
def test_an_assertion_about_one_program_says_nothing_about_probes(assertion: str) -> None:
    assert blind(assertion, run_of("p", a=ROW)) == []


def test_what_keeps_a_log_has_no_leaves_to_look_at() -> None:
    assert blind(SHAPES, Run("p", None), clean=[Run("p", None)]) == []


def test_the_lab_names_the_probe_to_which_the_shape_is_blind() -> None:
    names = ["add-new-axis", "add-inside"]
    experiment = prepare(CATALOGUE.page("skip-unbroadcast"), CATALOGUE, find_engine(), probes=names)
    report = run_lab(experiment, Baseline(open_cache(), ()))
    assert report.blind_to == ["add-inside"]
