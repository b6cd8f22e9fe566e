"""An attempt: probes that a learner wrote, judged by the lab.

A probe has to be sound before it can accuse an engine: it runs on the clean one, with the same
numbers each time, and without an alarm. Then it is put to the break.
"""

from __future__ import annotations

import math
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec

from harness.answer_key.margin import agree
from harness.core.errors import PageError, UsageError
from harness.core.report import RunReport, SiteReport
from harness.core.run import Array, Run
from harness.core.verdict import Alarm
from harness.core.vocabulary import Stage
from harness.diagnostics.crash import CRASH
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench, Pair
from harness.experiment.lab import Experiment, prepare, run_lab
from harness.pages.catalogue import Catalogue
from harness.pages.page import LARGEST, Claims, Page, read_text
from harness.pages.probe import Probe, read_probes
from harness.runs.store import Store

LARGEST_LEAF = 100_000
"""Elements; a probe that needs more is no small program."""

REPEATABLE = 1e-6
"""The relative difference between two runs that rounding may explain, also after some training."""


class Soundness(msgspec.Struct, frozen=True):
    """What speaks against a probe before any break is looked at; nothing, if it is a good one."""

    probe: str
    problems: list[str]


class Attack(msgspec.Struct, frozen=True):
    """What the probes did to one break."""

    break_: str = msgspec.field(name="break")
    killed_by: dict[str, list[str]]
    """The diagnostics that raise an alarm, by probe."""
    stage: Stage
    """The furthest that the fault came in any of the probes."""
    why: str
    sites: list[SiteReport]
    runs: list[RunReport]


def read_attempt(path: Path) -> tuple[Probe, ...]:
    """The probes in a learner's file.

    Raises UsageError for a file that is none, is too large or has no probe, PageError for one that
    is no text, no Python, or has functions that are no probes.
    """
    try:
        about = path.stat()
    except OSError as error:
        remedy = "name the file with your probe: `harness exercise ID my_probe.py`"
        raise UsageError(f"no file {path}: {error.strerror}", remedy) from None
    if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
        wrong = f"is larger than {LARGEST} bytes" if path.is_file() else "is no file"
        raise UsageError(f"{path} {wrong}", "a probe is a short function in a .py file")
    text = read_text(path)
    probes = read_probes(text, str(path))
    refuse_twins(probes)
    if not probes:
        remedy = "define one at the top level: `def my_probe(x=(4, 3)):`, with a docstring"
        raise UsageError(f"no probe in {path}", remedy)
    for probe in probes:
        for leaf in probe.leaves:
            if math.prod(leaf.shape or ()) > LARGEST_LEAF:
                problem = f"the leaf `{leaf.name}` of `{probe.function}` is {leaf.shape}"
                remedy = f"ask for no more than {LARGEST_LEAF} elements"
                raise PageError(str(path), 1, problem, remedy)
    return probes


def try_clean(probes: Sequence[Probe], engine: Engine, bench: Bench) -> list[Soundness]:
    """Whether each probe runs on the clean engine, with the same numbers each time, and no alarm.

    A probe that does not run there, hangs even, is put to nothing else.
    """
    if not probes:
        return []
    first = Bench(Store(None), (CRASH,), bench.limits).clean(engine, probes)
    crashes = {
        pair: f"it fails on the unbroken engine: {verdict.message}"
        for pair, clean in first.items()
        if isinstance(verdict := clean.verdicts[CRASH.name], Alarm)
    }
    if crashes:
        return [Soundness(probe.name, _of(probe, crashes)) for probe in probes]
    problems: dict[Pair, str] = {}
    for pair, clean in bench.clean(engine, probes).items():
        alarms = {n: v.message for n, v in clean.verdicts.items() if isinstance(v, Alarm)}
        if not _repeats(clean.run, first[pair].run):
            problems[pair] = "it gives other numbers each time: draw them from a seeded generator"
        elif alarms:
            told = "; ".join(f"{name}: {message}" for name, message in alarms.items())
            problems[pair] = f"on the unbroken engine there is an alarm already: {told}"
    return [Soundness(probe.name, _of(probe, problems)) for probe in probes]


def _of(probe: Probe, problems: Mapping[Pair, str]) -> list[str]:
    """What was found under any loss, once."""
    return list(dict.fromkeys(said for (name, _), said in problems.items() if name == probe.name))


def _repeats(run: Run, again: Run) -> bool:
    """Whether two runs of a probe on one engine gave the same numbers, up to rounding."""
    pairs = list(zip(_arrays(run), _arrays(again), strict=False))
    return len(_arrays(run)) == len(_arrays(again)) and all(
        one.dtype == two.dtype and agree(one.numpy(), two.numpy(), REPEATABLE) for one, two in pairs
    )


def _arrays(run: Run) -> list[Array]:
    seen = [run.output, *run.gradients.values(), *(a for step in run.log for a in step.values())]
    return [array for array in seen if array is not None]


def attack(
    break_id: str, probes: Sequence[Probe], catalogue: Catalogue, engine: Engine, bench: Bench
) -> Attack:
    """What sound probes do to a break: who notices, or how far the fault came."""
    report = run_lab(put_break(break_id, catalogue, engine, probes), bench)
    killed_by: dict[str, list[str]] = {}
    for run in report.runs:
        if run.caught_by:
            known = killed_by.setdefault(run.probe, [])
            known += [name for name in run.caught_by if name not in known]
    stages = get_args(Stage)
    stage, why = max(
        ((run.stage, run.why) for run in report.runs if run.stage),
        key=lambda said: stages.index(said[0]),
    )
    return Attack(
        break_=break_id,
        killed_by=killed_by,
        stage=stage,
        why=str(why),
        sites=report.sites,
        runs=report.runs,
    )


# ----- A break with other probes -----


def refuse_twins(probes: Sequence[Probe]) -> None:
    """Raise PageError for a name that is given twice: only the last function of a name is run."""
    for function, times in Counter(probe.function for probe in probes).items():
        if times > 1:
            problem, remedy = f"`{function}` is defined {times} times", "name each function once"
            raise PageError(probes[0].path, probes[0].line, problem, remedy)


def put_break(
    break_id: str, catalogue: Catalogue, engine: Engine, probes: Sequence[Probe]
) -> Experiment:
    """The break in the engine, with these probes and nothing that its page says of its own.

    Raises UsageError where there is no such break.
    """
    return bare(catalogue.page(break_id, "break"), catalogue, engine, probes)


def bare(page: Page, catalogue: Catalogue, engine: Engine, probes: Sequence[Probe]) -> Experiment:
    """The page's patch in the engine, with these probes and nothing that the page says."""
    silent = replace(page, expect={None: {}}, claims={None: Claims()})
    return replace(prepare(silent, catalogue, engine), probes=tuple(probes))
