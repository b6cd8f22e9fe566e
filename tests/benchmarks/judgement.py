"""How many pairs of a break and a probe are judged in a second, on one core.

    python -m tests.benchmarks.judgement

A pair is run, judged and given its stage; in the second row it is also heard by every diagnostic
but those that take finite differences. The engine is warm: its clean runs and the independent
libraries' answers are at hand, as they are from the second break on. Every break of the catalogue
is put to every gradient probe, with both losses.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.diagnostics import DIAGNOSTICS, Diagnostic
from harness.engines.engine import find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.lab import run_lab
from harness.experiment.patching import Experiment, prepare
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import Cache

TARGET = 2000
"""Pairs a second."""

DIFFERENCES = {"gradcheck", "directional"}


def main() -> None:
    """Print pairs a second, by wall clock and by processor time."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    catalogue, engine = open_catalogue(), find_engine()
    # Claims name diagnostics that are left out here.
    pages = [replace(page, claims={}) for page in catalogue.pages[0]]
    breaks = [page for page in pages if page.front.kind == "break"]
    probes = [name for name, probe in catalogue.shared_probes.items() if probe.kind == "gradient"]
    experiments = [prepare(page, catalogue, engine, probes=probes) for page in breaks]
    print(f"{len(breaks)} breaks, {len(probes)} gradient probes, 2 losses; target {TARGET}")
    _row("outcome and stage", experiments, ())
    exact = [each for each in DIAGNOSTICS if each.name not in DIFFERENCES]
    _row(f"and {len(exact)} diagnostics", experiments, exact)


def _row(what: str, experiments: Sequence[Experiment], diagnostics: Sequence[Diagnostic]) -> None:
    bench = Baseline(Cache(None), diagnostics)
    bench.clean(experiments[0].clean, experiments[0].probes)
    wall, processor = time.perf_counter(), _processor_seconds()
    stages = sum((_stages(experiment, bench) for experiment in experiments), Counter[str]())
    wall, processor = time.perf_counter() - wall, _processor_seconds() - processor
    pairs = stages.total()
    print(f"{what:20} {pairs / processor:8.0f} pairs a second of processor time", end="")
    print(f" ({pairs / wall:.0f} by wall clock)")
    print("  " + ", ".join(f"{count} {stage}" for stage, count in stages.most_common()))


def _stages(experiment: Experiment, bench: Baseline) -> Counter[str]:
    return Counter(run.stage for run in run_lab(experiment, bench).runs)


def _processor_seconds() -> float:
    """Of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
