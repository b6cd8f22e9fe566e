"""The observations for a new page: the probes that are proposed, and the tables of a page."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import get_args

import msgspec

from harness.check.expectations import unstated, value_of
from harness.core.message import shortened
from harness.core.report import Report, RunReport
from harness.core.vocabulary import OUTCOMES, Outcome, headline
from harness.diagnostics import DIAGNOSTICS, Diagnostic
from harness.experiment.baseline import Baseline, Context
from harness.experiment.lab import run_lab
from harness.experiment.statements import silent_on
from harness.grade.probes import prepare_bare
from harness.matrix.evaluation import size_of
from harness.pages.catalogue import unknown
from harness.pages.front_matter import UNSTATED, Claims, ProbeTable
from harness.pages.page import Page
from harness.pages.probe import DTYPES, Probe, ProbeKind

MOST = 8
"""The largest number of probes that are proposed for a page."""

CANDIDATES = 24
"""The number of probes on which all diagnostics run, to choose the proposed ones."""


@dataclass(frozen=True)
class Proposal:
    """The report on the probes that a page names, with all diagnostics."""

    report: Report
    others: Counter[Outcome]
    """The number of other probes that run the changed code, by outcome."""
    leaves: Mapping[str, Sequence[str]]
    """The names of each probe's leaves."""


def observe(page: Page, context: Context, names: Sequence[str], *, propose: bool) -> Proposal:
    """Run the page's patch on these probes; with `propose`, also on others that show more.

    Raises UsageError for a probe that does not exist, and what `prepare` raises.
    """
    probes = {**context.catalogue.shared_probes, **{probe.name: probe for probe in page.probes}}
    for name in names:
        if name not in probes:
            raise unknown("probe", name, probes, "`harness list --probes` shows the shared ones")
    leaves = {name: [leaf.name for leaf in probe.leaves] for name, probe in probes.items()}
    cache, given = context.baseline.cache, list(dict.fromkeys(names))
    unfit = unstated(page, context)
    left_out = {name: unfit[name] for name in given if name in unfit}
    probes = {name: probe for name, probe in probes.items() if name not in unfit}
    given = [name for name in given if name not in unfit]

    def run(names: Iterable[str], diagnostics: Sequence[Diagnostic]) -> Report:
        experiment = prepare_bare(page, [probes[name] for name in names], context)
        report = run_lab(experiment, Baseline(cache, diagnostics))
        return msgspec.structs.replace(report, left_out={**report.left_out, **left_out})

    if not propose:
        return Proposal(run(given, DIAGNOSTICS), Counter(), leaves)
    outcomes = _by_probe(run(probes, ()).runs)
    candidates = _most_different(outcomes, probes, given, CANDIDATES)
    report = run([*given, *candidates], DIAGNOSTICS)
    ends = _by_probe(report.runs)
    chosen = {*given, *_most_different(ends, probes, given, MOST)}
    others = Counter(_headline(outcomes[name]) for name in outcomes.keys() - chosen)
    del others["not-reached"]
    runs = [run for run in report.runs if run.probe in chosen]
    return Proposal(msgspec.structs.replace(report, runs=runs), others, leaves)


def _by_probe(runs: Sequence[RunReport]) -> dict[str, list[RunReport]]:
    return {name: list(group) for name, group in groupby(runs, key=lambda run: run.probe)}


def _headline(runs: Sequence[RunReport]) -> Outcome:
    return headline({run.outcome for run in runs})


def _most_different(
    runs: Mapping[str, Sequence[RunReport]],
    probes: Mapping[str, Probe],
    given: Sequence[str],
    most: int,
) -> list[str]:
    """Return probes whose results differ as much as possible, at most `most` with the given ones.

    The outcomes take turns: first one probe of each, then one with a different result. If there is
    still room, probes from other files follow, which exercise other ops.
    """
    kinds = get_args(ProbeKind)  # the simplest first

    def way(name: str) -> tuple[object, ...]:
        ends = [(run.loss, run.outcome, run.kind, run.stage) for run in runs[name]]
        return probes[name].kind, *ends

    reached = [name for name, ends in runs.items() if _headline(ends) != "not-reached"]
    groups: dict[tuple[object, ...], dict[str, list[str]]] = {}
    for name in reached:
        groups.setdefault(way(name), {}).setdefault(probes[name].path, []).append(name)
    turns, ranked = Counter[Outcome](), []
    for files in sorted(groups.values(), key=lambda files: kinds.index(_kind(files, probes))):
        outcome = _headline(runs[next(iter(files.values()))[0]])
        for number, names in enumerate(sorted(files.values(), key=len, reverse=True)):
            if not set(names) & set(given):
                rank = number, turns[outcome], OUTCOMES.index(outcome)
                ranked.append((*rank, _smallest(names, probes)))
        turns[outcome] += 1
    return [name for *_, name in sorted(ranked)][: max(most - len(given), 0)]


def _kind(files: Mapping[str, Sequence[str]], probes: Mapping[str, Probe]) -> ProbeKind:
    return probes[next(iter(files.values()))[0]].kind


def _smallest(names: Sequence[str], probes: Mapping[str, Probe]) -> str:
    """Return the probe with the fewest numbers, preferably an ordinary one."""

    def size(name: str) -> tuple[bool, float]:
        probe = probes[name]
        ordinary = all(leaf.dtype == DTYPES[0] for leaf in probe.leaves) and not probe.refused
        return not ordinary, size_of(probe).elements or math.inf

    return min(names, key=size)


# ----- The tables -----


def expect_rows(observed: Proposal, stated: ProbeTable) -> Iterator[str]:
    """Yield the rows of `[expect]`: statements that are still true stay, the others become open."""
    runs = _by_probe(observed.report.runs)
    if all(_headline(ends) == "not-reached" for ends in runs.values()) and not observed.others:
        yield "# observed: no probe runs the changed code; write one in a section `## Probes`"
    width = max(map(len, [*runs, *observed.report.left_out]), default=0)
    for probe, ends in runs.items():
        outcomes = {run.loss or "weighted": run.outcome for run in ends}
        entry = stated.get(probe)
        expected = entry if isinstance(entry, dict) else dict.fromkeys(outcomes, entry)
        if expected == outcomes:
            yield f"{probe:{width}} = {value_of(ends, list(outcomes.values()))}"
        else:
            evidence = shortened(" ".join(str(ends[-1].evidence).split()), 100)
            results = (f"{run.outcome} ({run.kind})" if run.kind else run.outcome for run in ends)
            what = ", ".join(dict.fromkeys(results))
            value = value_of(ends, [UNSTATED] * len(ends))
            yield f"{probe:{width}} = {value}  # observed: {what}; {evidence}"
    for probe, reason in observed.report.left_out.items():
        yield f'{probe:{width}} = "{UNSTATED}"  # observed: {reason}'
    if observed.others:
        counts = ", ".join(f"{n} {outcome}" for outcome, n in observed.others.most_common())
        add = f"`harness new {observed.report.break_} --again --probe NAME` adds one"
        yield f"# observed: other probes that run the changed code: {counts}; {add}"


def ask_rows(observed: Proposal) -> Iterator[str]:
    """Yield the rows of one `[[ask]]`: about a wrong shape, or else about an outcome."""
    silent = [run for run in observed.report.runs if run.outcome == "silent-corruption"]
    for run in silent:
        if run.kind == "shape" and len(leaves := observed.leaves[run.probe]) == 1:
            gradient = f"{leaves[0]}.grad"
            yield from _ask(run.probe, f"What is the shape of {gradient}?", f"{gradient}.shape")
            return
    for run in [*silent, *observed.report.runs][:1]:
        yield from _ask(run.probe, "What happens?", "outcome")


def _ask(probe: str, question: str, answer: str) -> Iterator[str]:
    yield "\n[[ask]]  # what would a learner get wrong? The answer is looked up in the run"
    yield f'probe    = "{probe}"'
    yield f'question = "{question}"'
    yield f'answer   = "{answer}"'
    yield 'because  = ""'


def claim_rows(observed: Proposal, stated: Claims) -> dict[str, str]:
    """Return the rows of `[diagnostics]` by key; claims that are still true stay."""
    runs, kind = observed.report.runs, observed.report.kind
    caught = dict.fromkeys(name for run in runs for name in run.caught_by)
    silent = dict.fromkeys(name for run in runs for name in silent_on(run, kind))
    missed = [name for name in silent if name not in caught]
    tables = {"caught_by": (stated.caught_by, caught), "missed_by": (stated.missed_by, missed)}
    rows = {}
    for key, (claims, names) in tables.items():
        true = [name for name in claims if name in names]
        rows[key] = f"{key} = {json.dumps(true)}"
        if not true or true != list(claims):
            rows[key] += f"  # observed: {', '.join(names) or 'no diagnostic'}"
    return rows
