"""The runner: each kind of page has its report."""

from importlib import import_module
from typing import get_args

import pytest

from harness.check.pages import CHECKS
from harness.check.runner import PageReport, prepare_page, run_page
from harness.core.errors import UsageError
from harness.core.report import Report
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.myth import MythReport
from harness.grade.exercise import ExerciseReport
from harness.pages.front_matter import KINDS
from harness.report import RENDERERS
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE

CONTEXT = OpenContext(CATALOGUE, find_engine(), Baseline(open_cache()))


def test_every_kind_of_page_has_a_check() -> None:
    assert CHECKS.keys() == set(KINDS)


@pytest.mark.usefixtures("without_oracles")
@pytest.mark.parametrize(
    ("page", "report"),
    [
        ("sub-sign", Report),
        ("sub-is-add-of-neg", Report),
        ("no-op", Report),
        ("allclose-compares-shapes", MythReport),
        ("only-trees", ExerciseReport),
    ],
)
def test_a_page_runs_as_its_kind_requires(page: str, report: type) -> None:
    assert isinstance(run_page(CONTEXT.catalogue.page(page), CONTEXT), report)


def test_every_report_has_a_renderer() -> None:
    assert RENDERERS.keys() >= {report.__name__ for report in get_args(PageReport)}
    for place in RENDERERS.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(f"harness.report.{module}"), function))


@pytest.mark.parametrize("page", ["allclose-compares-shapes", "only-trees"])
def test_a_page_without_a_patch_cannot_be_prepared(page: str) -> None:
    with pytest.raises(UsageError, match=f"`{page}`"):
        prepare_page(CONTEXT.catalogue.page(page), CONTEXT)
