"""The designs of `suites` give the same verdicts."""

from pathlib import Path

import pytest

from tests.benchmarks.suites import SUITES, compare


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES, ids=lambda path: Path(path).stem)
def test_swapped_breaks_are_judged_like_imported_ones(suite: str) -> None:
    comparison = compare(suite, "family:broadcasting,tape-gradient-in-target-shape")
    assert comparison.differences == {}
    assert comparison.breaks == 19
