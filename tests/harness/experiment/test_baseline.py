"""What the baseline need not ask twice, and that it makes no difference."""

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import pytest

from harness.core.message import verbatim
from harness.core.run import Array, Digest, Measured, Run, pack
from harness.core.vocabulary import Alarm, Loss, Skipped
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.engines.engine import find_engine
from harness.experiment import baseline
from harness.experiment.baseline import Baseline, CleanRun
from harness.pages.probe import Probe
from harness.runs.cache import Cache, open_cache
from tests.harness.bundled import CATALOGUE

PROBES = [
    CATALOGUE.shared_probes[name]
    for name in ("add-new-axis", "relu-at-kinks", "causal-two-heads", "resume-training")
]
BASELINE = Baseline(open_cache())


@cache
def known() -> dict[tuple[str, str | None], CleanRun]:
    return {
        (name, loss): key for (name, loss), key in BASELINE.clean(find_engine(), PROBES).items()
    }


def observation(pair: tuple[str, str | None], run: Run) -> Observation:
    probe = next(probe for probe in PROBES if probe.name == pair[0])
    return Observation(probe, run, known()[pair].oracles)


def off_by_one(array: Array) -> Array:
    values = array.numpy()
    return pack(values + np.ones((), values.dtype)) if values.dtype.kind == "f" else array


@pytest.mark.parametrize("probe", [probe.name for probe in PROBES])
def test_a_diagnostic_looks_at_no_measurement_but_its_own(probe: str) -> None:
    for pair, key in known().items():
        if pair[0] != probe:
            continue
        for each in DIAGNOSTICS:
            own = {name: m for name, m in key.run.measured.items() if name == each.name}
            alone = msgspec.structs.replace(key.run, measured=own)
            assert evaluate(each, observation(pair, alone)) == key.verdicts[each.name]


@pytest.mark.parametrize("part", ["nothing", "output", "gradients", "log", "measured"])
def test_who_sees_nothing_new_says_the_same_and_who_does_is_asked(part: str) -> None:
    pairs = []
    for pair, key in known().items():
        run = changed(key.run, part)
        pairs += [(BASELINE.verdicts_beside(key, observation(pair, run)), key.verdicts)]
        assert pairs[-1][0] == BASELINE.verdicts(observation(pair, run))
    alarms = [v for said, _ in pairs for v in said.values() if isinstance(v, Alarm)]
    if part == "nothing":
        assert all(said[name] is v for said, before in pairs for name, v in before.items())
    else:
        assert alarms


def changed(run: Run, part: str) -> Run:
    """The run of another engine, which is off by one in that part."""
    run = msgspec.structs.replace(run, reached=[0], trail={"0 executed": Digest(1)}, seconds=9.0)
    if part == "output":
        return msgspec.structs.replace(run, output=run.output and off_by_one(run.output))
    if part == "gradients":
        wrong = {name: g and off_by_one(g) for name, g in run.gradients.items()}
        return msgspec.structs.replace(run, gradients=wrong)
    if part == "log":
        wrong_log = [{name: off_by_one(v) for name, v in entry.items()} for entry in run.log]
        return msgspec.structs.replace(run, log=wrong_log)
    if part == "measured":
        wrong_measured = {
            name: Measured({key: off_by_one(value) for key, value in m.values.items()}, m.numbers)
            for name, m in run.measured.items()
        }
        return msgspec.structs.replace(run, measured=wrong_measured)
    return run


def test_a_library_that_is_installed_and_does_not_load_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_memory(
        _name: str, pairs: Sequence[tuple[Probe, Loss | None]], _store: Cache
    ) -> dict[tuple[str, Loss | None], Skipped]:
        reason = Skipped(verbatim("torch cannot be imported"), repeatable=False)
        return {(probe.name, loss): reason for probe, loss in pairs}

    monkeypatch.setattr(baseline, "run_on_library", without_memory)
    monkeypatch.setattr(baseline, "why_missing", lambda _name: None)
    bench = Baseline(open_cache())
    assert bench.missing() == {}
    bench.clean(find_engine(), PROBES[:1])
    assert bench.missing()["torch"] == verbatim("torch cannot be imported")
