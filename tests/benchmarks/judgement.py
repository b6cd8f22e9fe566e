"""How many pairs of a break and a probe are judged in a second, on one core.

    python -m tests.benchmarks.judgement

A pair is run, judged, given its stage and heard by every diagnostic but those that take finite
differences. The engine is warm: its clean runs and the independent libraries' answers are at hand,
as they are from the second break on. Every break of the catalogue is put to every gradient probe.
"""

from __future__ import annotations

import os
import time
from collections import Counter

from harness.bench import Bench
from harness.catalogue import open_catalogue
from harness.diagnostics import DIAGNOSTICS
from harness.engine import find_engine
from harness.lab import Experiment, prepare, run_lab
from harness.store import Store

TARGET = 2000
"""Pairs a second."""

DIFFERENCES = {"gradcheck", "directional"}


def main() -> None:
    """Print pairs a second, by wall clock and by processor time."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    catalogue, engine = open_catalogue(), find_engine()
    breaks = [page for page in catalogue.pages()[0] if page.front.kind == "break"]
    probes = [name for name, probe in catalogue.shared_probes.items() if probe.kind == "gradient"]
    experiments = [prepare(page, catalogue, engine, probes=probes) for page in breaks]
    diagnostics = [each for each in DIAGNOSTICS if each.name not in DIFFERENCES]
    bench = Bench(Store(None), diagnostics)
    bench.clean(engine, experiments[0].probes)
    wall, processor = time.perf_counter(), _processor_seconds()
    stages = sum((_stages(experiment, bench) for experiment in experiments), Counter())
    wall, processor = time.perf_counter() - wall, _processor_seconds() - processor
    pairs = stages.total()
    print(f"{len(breaks)} breaks, {len(probes)} gradient probes, 2 losses: {pairs} pairs")
    print(f"by wall clock      {pairs / wall:8.0f} pairs a second")
    print(f"by processor time  {pairs / processor:8.0f} pairs a second (target {TARGET})")
    print(", ".join(f"{count} {stage}" for stage, count in stages.most_common()))


def _stages(experiment: Experiment, bench: Bench) -> Counter[str]:
    return Counter(run.stage for run in run_lab(experiment, bench).runs)


def _processor_seconds() -> float:
    """Of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
