"""Jobs give the same runs in parallel as one after the other."""

import msgspec
import pytest

from harness.core.run import Run
from harness.runs import cached_runs
from harness.runs.cache import Cache
from harness.runs.cached_runs import run_cached, run_in_parallel
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from tests.harness.tiny import TINY, tiny_job

JOBS = [tiny_job(), tiny_job(TINY.replace("2 *", "3 *"))]


def untimed(runs: list[Run]) -> list[Run]:
    return [msgspec.structs.replace(run, seconds=0.0) for run in runs]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_runs_are_cached_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    cache = Cache(None)
    expected = [untimed(run_isolated(job)) for job in JOBS]
    run_in_parallel(JOBS, cache, processes)
    monkeypatch.setattr(cached_runs, "run_isolated", None)
    assert [untimed(run_cached(job, cache)) for job in JOBS] == expected
    assert expected[0] != expected[1]


def test_only_missing_runs_are_computed_and_none_for_an_engine_that_does_not_load() -> None:
    cache = Cache(None)
    job, broken = tiny_job(), tiny_job(f"{TINY}\nraise ValueError\n")
    first = run_cached(job.only([0]), cache)
    run_in_parallel([job, broken], cache, 2)
    assert run_cached(job, cache)[0] == first[0]
    with pytest.raises(EngineDoesNotLoad, match="ValueError"):
        run_cached(broken, cache)
