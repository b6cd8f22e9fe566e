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
def bench() -> Baseline:
    return Baseline(open_cache(), diagnostics=())


def resembling(bench: Baseline, page: str, *changes: tuple[str, str]) -> list[str]:
    engine = engine_of(changed(*changes))
    return resembling_probes(CATALOGUE.page(page), engine, CATALOGUE, bench)


def test_an_engine_that_does_not_unbroadcast_resembles_the_break(bench: Baseline) -> None:
    probes = resembling(bench, "skip-unbroadcast", KEPT)
    assert "add-new-axis" in probes
    assert "add-same-shape" not in probes


def test_a_correct_engine_resembles_none(bench: Baseline) -> None:
    assert resembling(bench, "skip-unbroadcast") == []


def test_another_wrong_number_is_another_bug(bench: Baseline) -> None:
    assert resembling(bench, "skip-unbroadcast", DOUBLED) == []


def test_a_bug_elsewhere_is_not_the_break(bench: Baseline) -> None:
    assert resembling(bench, "skip-unbroadcast", ASSIGNED) == []
