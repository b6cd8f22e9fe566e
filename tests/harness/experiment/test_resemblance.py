"""Unbroken engines that already behave like a break."""

import pytest

from harness.experiment.baseline import Baseline
from harness.experiment.conformance import resembling_probes
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE
from tests.harness.engines.explored import engine_of
from tests.harness.engines.texts import changed

KEPT = (
    "lambda g: fold(g, a.data.shape), lambda g: fold(g, b.data.shape)",
    "lambda g: g, lambda g: g",
)
ASSIGNED = ("self.grad = part if self.grad is None else self.grad + part", "self.grad = part")
DOUBLED = (KEPT[0], "lambda g: 2 * fold(g, a.data.shape), lambda g: fold(g, b.data.shape)")


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return Baseline(open_cache(), diagnostics=())


def resembling(baseline: Baseline, page: str, *changes: tuple[str, str]) -> list[str]:
    engine = engine_of(changed(*changes))
    return resembling_probes(CATALOGUE.page(page), engine, CATALOGUE, baseline)


def test_an_engine_that_does_not_unbroadcast_resembles_the_break(baseline: Baseline) -> None:
    probes = resembling(baseline, "skip-unbroadcast", KEPT)
    assert "add-new-axis" in probes
    assert "add-same-shape" not in probes


def test_a_correct_engine_resembles_none(baseline: Baseline) -> None:
    assert resembling(baseline, "skip-unbroadcast") == []


def test_another_wrong_number_is_another_bug(baseline: Baseline) -> None:
    assert resembling(baseline, "skip-unbroadcast", DOUBLED) == []


def test_a_bug_elsewhere_is_not_the_break(baseline: Baseline) -> None:
    assert resembling(baseline, "skip-unbroadcast", ASSIGNED) == []
