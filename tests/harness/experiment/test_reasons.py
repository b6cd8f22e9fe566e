"""Why a run ends as it does on its input: what the recorded values show."""

import pytest

from harness.core.report import Report
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import prepare
from harness.runs.cache import open_cache
from tests.harness.bundled import CATALOGUE


@pytest.fixture(scope="module")
def reasons() -> dict[tuple[str, str], str]:
    """The reason of each run under the uniform loss, by page and probe."""
    found: dict[tuple[str, str], str] = {}
    for page_id in (
        "mul-swapped-operands",
        "mul-ignore-upstream",
        "assign-not-accumulate",
        "recursive-backward-no-topo",
        "matmul-no-transpose",
        "sum-no-expand",
        "mse-target-broadcast",
    ):
        page = CATALOGUE.page(page_id)
        experiment = prepare(page, CATALOGUE, find_engine())
        report: Report = run_lab(experiment, Baseline(open_cache(), ()), causes=True)
        found |= {
            (page_id, run.probe): str(run.because) for run in report.runs if run.loss == "uniform"
        }
    return found


@pytest.mark.slow  # seven pages with everything that is recorded inside
def test_the_values_of_the_changed_expressions_say_why(
    reasons: dict[tuple[str, str], str],
) -> None:
    expected = {
        # Which operands are the same.
        ("mul-swapped-operands", "square"): (
            "`b` became `a`: here both are the same array, [0.1899, 1.534, 1.017]"
        ),
        ("mul-swapped-operands", "split-evenly"): "`b` became `a`: here [1, 2] instead of [3, 4]",
        # Which value is 1.
        ("mul-ignore-upstream", "square"): (
            "`g * b` became `b.copy()`: here `g` is 1, so both are the same"
        ),
        # Which path receives only one gradient.
        ("assign-not-accumulate", "chain"): (
            "`totals.get(parent)` became `None`: here it is None anyway"
        ),
        ("assign-not-accumulate", "nested-sums"): (
            "`totals.get(parent)` became `None`: here it would be [1, 1, 1]"
        ),
        # Which nodes are visited, if more than an expression changes.
        ("recursive-backward-no-topo", "chain"): (
            "here the backward pass visits `mul`, `tanh`, `exp` and `x`, each once and "
            "with the right gradient"
        ),
        # Which shape fits by accident.
        ("sum-no-expand", "sum-rows-of-square"): (
            "`g if keepdims else np.expand_dims(g, axes)` became `g`: here shape (3,) instead of "
            "(3, 1), with the same numbers, [1, 1, 1]"
        ),
        ("matmul-no-transpose", "matmul-2x3-3x4"): (
            "`columns.swapaxes(-1, -2)` became `columns`: here shape (3, 4) instead of (4, 3)"
        ),
        # Which test would have been false.
        ("mse-target-broadcast", "mse-of-four"): (
            "the test `prediction.shape != target.shape` is missing: here it would be False"
        ),
    }
    assert {key: reasons[key] for key in expected} == expected


@pytest.mark.slow
def test_values_that_do_not_belong_together_are_not_compared(
    reasons: dict[tuple[str, str], str],
) -> None:
    # The order of the walk differs, so the first total of one is not the first of the other.
    assert reasons["recursive-backward-no-topo", "diamond"] == ""
