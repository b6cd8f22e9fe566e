"""Judging a repair: the copy against the unbroken engine, on more than the break's own page.

The copy is run like any broken engine, with all diagnostics, in rounds of probes: the page's; all
shared ones that run what the break or the learner changed; and the same probes with other lengths
and numbers. The first round in which something differs is the last one.
"""

from __future__ import annotations

import ast
import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.errors import UsageError
from harness.core.message import Message, message
from harness.core.report import EngineReport, RunReport
from harness.core.rounding import repeats
from harness.core.run import Run
from harness.core.vocabulary import Loss, Outcome
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline, Context
from harness.experiment.lab import run_lab
from harness.experiment.patching import Experiment, prepare, put
from harness.learn.scratch_copy import ScratchCopy, digest_of
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break, TrainingBreak, Variant
from harness.pages.page import Page
from harness.pages.probe import Leaf, Probe, parse_python
from harness.patch import Patched
from harness.runs.cache import Cache

WRONG: frozenset[Outcome] = frozenset({"silent-corruption", "crash"})
"""The outcomes that a right repair has on no probe."""

NUMBERS = ("value", "state")
"""The kinds of wrong results that rounding may explain: numbers of a run or of its log."""

ANOTHER = "choose another break: `harness list --kind break`"

RepairState = Literal["unrepaired", "wrong", "right"]


class CopyDifference(msgspec.Struct, frozen=True):
    """A run on which the copy differs from the unbroken engine, or raises an alarm."""

    probe: str
    computes: str
    """What the probe computes, if that is one expression; else the first line of its docstring."""
    loss: Loss | None
    outcome: Outcome
    evidence: Message
    diagnostic: str | None = None
    """The diagnostic that raises an alarm, if nothing else differs."""
    first_seen: Message | None = None
    """The step of the backward pass at which it is first seen, for the first difference."""
    drawn: dict[str, tuple[int, ...]] = {}
    """The shapes of the leaves, if they were drawn."""


class Repair(msgspec.Struct, frozen=True):
    """A scratch copy and what is known about it. Schema 1: keys may be added, never renamed."""

    schema: int
    page: str
    engine: EngineReport
    folder: str
    files: list[str]
    """The files with the bug, in the folder."""
    state: RepairState
    judged: int
    """The number of probes that were run; 0 for a right repair whose code equals the original."""
    differences: list[CopyDifference]
    diff: str = ""
    """From the original to a right repair; empty if they are equal."""
    why: str = ""
    """Why the break does what it does, in the page's words, after a right repair."""


@dataclass(frozen=True)
class RepairTask:
    """A page's break in an engine, which a learner is to repair in a copy."""

    experiment: Experiment
    symptom: CopyDifference
    """The first wrong run."""

    def in_folder(self, folder: Path) -> Repair:
        """Return the copy in this folder, of which nothing is repaired."""
        unrepaired = _unrepaired(self.experiment, folder)
        judged = len(self.experiment.probes)
        return msgspec.structs.replace(unrepaired, judged=judged, differences=[self.symptom])


def repair_task(page: Page, context: Context) -> RepairTask:
    """Put the break into the engine, and run the page's probes, without diagnostics.

    Raises UsageError for a page whose break no probe shows, and what `prepare` raises.
    """
    _require_probes(page)
    experiment = prepare(page, context.catalogue, context.engine)
    report = run_lab(experiment, context.baseline.bare())
    by_name = {probe.name: probe for probe in experiment.probes}
    found = next(_wrong_runs(report.runs), None)
    if found is None:
        reason = report.misplaced or message("no probe shows the bug on this engine")
        problem = message("`{page}` cannot be repaired here: {reason}", page=page.id, reason=reason)
        raise UsageError(problem, ANOTHER)
    return RepairTask(experiment, _describe(found[0], by_name[found[0].probe], None))


def judge_copy(
    copy: ScratchCopy, page: Page, context: Context, generator: random.Random | None = None
) -> Repair:
    """Compare a copy with the unbroken engine, round by round.

    Raises PageError for a file that is not Python, UsageError if the engine has changed since the
    copy was made.
    """
    _require_probes(page)
    experiment = prepare(page, context.catalogue, context.engine)
    clean = experiment.clean
    if digest_of(clean) != copy.origin.digest:
        problem = message("{engine} has changed since this copy was made", engine=clean.name)
        raise UsageError(problem, "start over with --again")
    sources = copy.read()
    repair = _unrepaired(experiment, copy.folder)
    if experiment.broken.sources.items() <= sources.items():
        return repair
    why = "" if experiment.foreign else page.advice_on(None)[1].why
    if _is_original(clean, sources):
        diff = _difference(clean, sources)
        return msgspec.structs.replace(repair, state="right", diff=diff, why=why)
    rewritten = replace(
        experiment,
        broken=copy.engine(clean, sources),
        diff=_difference(clean, sources),
        guards=(),
        questions=(),
        rewritten=True,
    )
    judged, differences = _judge(
        rewritten, context, generator or random.Random(secrets.randbits(64))
    )
    right = not differences
    return msgspec.structs.replace(
        repair,
        state="right" if right else "wrong",
        judged=judged,
        differences=differences,
        diff=rewritten.diff if right else "",
        why=why if right else "",
    )


def _is_original(clean: Engine, sources: Mapping[str, str]) -> bool:
    """Whether a copy is the unbroken engine, except for comments and layout: then nothing has to be
    run to judge it.

    Raises PageError for a file that is not Python.
    """
    if sources.keys() != clean.sources.keys():
        return False

    def tree(text: str, file: str) -> str:
        return ast.dump(parse_python(text, file, 1, "file"))

    return all(
        text == clean.sources[file] or tree(text, file) == tree(clean.sources[file], file)
        for file, text in sources.items()
    )


def _unrepaired(experiment: Experiment, folder: Path) -> Repair:
    """Return the report on a copy that has not been judged."""
    return Repair(
        schema=1,
        page=experiment.page.id,
        engine=experiment.clean.report(None),
        folder=str(folder),
        files=list(dict.fromkeys(site.file for site in experiment.broken.sites)),
        state="unrepaired",
        judged=0,
        differences=[],
    )


def _require_probes(page: Page) -> None:
    """Raise UsageError for a page that is not a break that probes show."""
    if isinstance(page.front, TrainingBreak):
        problem = message("`{page}` shows only in whole training runs, not on probes", page=page.id)
        raise UsageError(problem, ANOTHER)
    if not isinstance(page.front, Break):
        raise page.unlike(Break)


def _difference(clean: Engine, sources: Mapping[str, str]) -> str:
    """Return the diff from the unbroken engine to a copy."""
    files = {file: sources.get(file, "") for file in (*clean.sources, *sources)}
    originals = {file: clean.sources.get(file, "") for file in files}
    return Patched(files, (), originals).diff()


# ----- Judging -----


def _judge(
    experiment: Experiment, context: Context, generator: random.Random
) -> tuple[int, list[CopyDifference]]:
    """Return the number of probes that were run, and what differs in the last round."""
    judged, unstable = 0, _unstable(context.catalogue)
    for item in rounds(experiment, context, generator):
        report = run_lab(replace(experiment, probes=tuple(item.probes)), item.baseline)
        judged += len({run.probe for run in report.runs})
        by_name = {probe.name: probe for probe in item.probes}
        wrong = [
            (run, diagnostic)
            for run, diagnostic in _wrong_runs(report.runs)
            if not (
                (item.drawn or run.probe in unstable)
                and run.kind in NUMBERS
                and _is_rounding(experiment, by_name[run.probe], run.loss, item.baseline)
            )
        ]
        if wrong:
            first, *others = (
                _describe(run, by_name[run.probe], diagnostic, drawn=item.drawn)
                for run, diagnostic in wrong
            )
            run = wrong[0][0]
            if run.loss is not None and run.outcome == "silent-corruption":
                seen = _first_seen(experiment, by_name[run.probe], run.loss, item.baseline)
                first = msgspec.structs.replace(first, first_seen=seen)
            return judged, [first, *others]
    return judged, []


def _unstable(catalogue: Catalogue) -> set[str]:
    """Return the probes of steps whose numbers change with a correct rewrite of the engine.

    They amplify rounding: Adam divides a gradient that is nothing but rounding by its own size.
    """
    shared = catalogue.shared_probes
    return {
        name
        for page in catalogue.pages[0]
        if isinstance(page.front, Variant)
        for name in page.expect[None]
        if name in shared
        and shared[name].kind == "steps"
        and page.expected(None, name, None) in WRONG
    }


def _is_rounding(
    experiment: Experiment, probe: Probe, loss: Loss | None, baseline: Baseline
) -> bool:
    """Whether rounding alone explains what differs: a correct engine may lose digits too.

    The loss of a training has to be the same at all steps, and any other result as it would be if
    the clean engine ran again.
    """
    clean = baseline.clean_runs(experiment.clean, [probe])[probe.name, loss]
    runs = baseline.broken(experiment.clean, experiment.broken, [probe])
    run = next(run for run in runs if run.loss == loss)
    return repeats(_without_state(run), _without_state(clean))


def _without_state(run: Run) -> Run:
    """Return the run, with only the losses of its log if it has a log."""
    if not all("loss" in entry for entry in run.log):
        return run
    log = [{"loss": entry["loss"]} for entry in run.log]
    return msgspec.structs.replace(run, log=log)


# ----- Differences -----


def _wrong_runs(runs: Sequence[RunReport]) -> Iterator[tuple[RunReport, str | None]]:
    """Yield the wrong runs, and then those with an alarm, each with the diagnostic."""
    for run in runs:
        if run.outcome in WRONG:
            yield run, None
    for run in runs:
        if run.outcome not in WRONG and run.caught_by:
            yield run, run.caught_by[0]


def _describe(
    run: RunReport, probe: Probe, diagnostic: str | None, *, drawn: bool = False
) -> CopyDifference:
    shapes = {leaf.name: leaf.shape for leaf in probe.leaves if leaf.shape is not None}
    return CopyDifference(
        probe=probe.function.replace("_", "-") if drawn else probe.name,
        computes=probe.formula or probe.doc.splitlines()[0],
        loss=run.loss,
        outcome=run.outcome,
        evidence=run.evidence if diagnostic is None else run.alarms[diagnostic],
        diagnostic=diagnostic,
        drawn=shapes if drawn else {},
    )


def _first_seen(
    experiment: Experiment, probe: Probe, loss: Loss, baseline: Baseline
) -> Message | None:
    """Return the step of the backward pass after which something is wrong, if there is one."""
    chosen = replace(experiment, probes=(probe,))
    report = run_lab(chosen, baseline.bare(), causes=True)
    return next(run.first_divergence for run in report.runs if run.loss == loss)


# ----- The rounds -----

LENGTHS = range(3, 8)
"""The lengths to draw. With shorter axes, normalised values do not depend on the input at all, and
nothing but rounding is left of their gradients."""

LARGEST_LEAF = 1000
"""The most elements of a leaf with drawn lengths."""


@dataclass(frozen=True)
class Round:
    """Probes to run on the copy, and what to judge them with."""

    probes: Sequence[Probe]
    baseline: Baseline
    drawn: bool = False
    """Whether the lengths of their inputs were drawn."""


def rounds(experiment: Experiment, context: Context, generator: random.Random) -> Iterator[Round]:
    """Yield the rounds, each when it is needed; `experiment.broken` is the copy."""
    baseline, own = context.baseline, experiment.probes
    names = {probe.name for probe in own}
    yield Round(own, baseline)
    shared = context.catalogue.shared_probes.values()
    others = [probe for probe in shared if probe.name not in names]
    broken = put(experiment.page, experiment.clean)
    reached = {
        step.probe
        for sources in (broken.sources, experiment.broken.sources)
        for step in baseline.reaching(experiment.clean, sources, others)
    }
    others = [probe for index, probe in enumerate(others) if index in reached]
    yield Round(others, baseline)
    passing = Baseline(Cache(None), (), baseline.limits)
    drawn = [fresh(probe, generator) for probe in (*own, *others)]
    reference = find_engine() if experiment.clean.foreign else experiment.clean
    runnable = _runnable([probe for probe in drawn if probe], reference, passing)
    yield Round(runnable, passing, drawn=True)


def fresh(probe: Probe, generator: random.Random) -> Probe | None:
    """Return the probe with other lengths and other numbers; None if it draws no input.

    Equal lengths stay equal, and so do 0 and 1, which have a meaning of their own.
    """
    lengths = {n for leaf in probe.leaves for n in leaf.shape or () if n > 1}
    drawn = {n: generator.choice(LENGTHS) for n in sorted(lengths)}

    def redrawn(leaf: Leaf) -> Leaf:
        shape = leaf.shape
        return leaf if shape is None else replace(leaf, shape=tuple(drawn.get(n, n) for n in shape))

    leaves = tuple(map(redrawn, probe.leaves))
    shapes = [leaf.shape for leaf in leaves if leaf.shape is not None]
    if probe.kind != "gradient" or not shapes or max(map(prod, shapes)) > LARGEST_LEAF:
        return None
    # The numbers depend on the name.
    return replace(probe, name=f"{probe.name}-{generator.randrange(10**6)}", leaves=leaves)


def _runnable(probes: Sequence[Probe], engine: Engine, baseline: Baseline) -> list[Probe]:
    """Return the probes that an engine can run: the code of others states their lengths."""
    runs = baseline.clean_runs(engine, probes)
    failed = {name for (name, _), run in runs.items() if run.failure}
    return [probe for probe in probes if probe.name not in failed]
