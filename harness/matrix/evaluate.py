"""Running a plan, page by page, in as many processes as there are cores."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import msgspec

from harness.core.message import as_parts, from_parts
from harness.core.report import Report, RunReport
from harness.experiment.baseline import Baseline
from harness.experiment.lab import add_stages, run_lab, unreached_reports, usable
from harness.experiment.patching import Experiment
from harness.matrix.cached import COMMON, EVALUATIONS, StoredEvaluation, pack, unpack
from harness.matrix.evaluation import CleanAlarms, Evaluation, Evaluations, false_alarms
from harness.matrix.plan import Entry, Plan, size_of
from harness.pages.front_matter import Break
from harness.pages.probe import Probe
from harness.runs.cache import Cache
from harness.runs.cached_runs import run_in_parallel
from harness.sandbox.hosts import close_hosts
from harness.sandbox.parallel import available_cores, map_in_parallel

Progress = Callable[[int, str], None]
"""A function of the number of finished pages and the id of the last one."""


def evaluate_all(
    plan: Plan,
    baseline: Baseline,
    *,
    processes: int | None = None,
    progress: Progress = lambda _done, _page: None,
) -> Evaluations:
    """Run the plan, and return the evaluations.

    Raises EnvironmentProblem if the engine does not load.
    """
    if plan.choice.engine.foreign:
        breaks = tuple(_usable(entry, baseline) for entry in plan.breaks)
        plan = replace(plan, breaks=breaks)
    evaluations: dict[str, Evaluation] = {}
    clean: CleanAlarms = {}
    with closing(_evaluate_in_order(plan, baseline, processes or available_cores())) as results:
        for done, (entry, evaluation) in enumerate(results, start=1):
            evaluations[entry.page.id] = evaluation
            clean = {**evaluation.clean, **clean}
            progress(done, entry.page.id)
    shared = plan.choice.catalogue.shared_probes
    return Evaluations(
        engine=plan.choice.report,
        diagnostics=tuple(baseline.diagnostics),
        breaks=tuple(evaluations[entry.page.id] for entry in plan.breaks),
        variants=tuple(evaluations[entry.page.id] for entry in plan.variants),
        controls=tuple(evaluations[entry.page.id] for entry in plan.controls),
        clean=tuple(alarm for alarms in clean.values() for alarm in alarms),
        shared={name: size_of(probe) for name, probe in shared.items()},
        conventions=plan.choice.catalogue.conventions,
    )


def _usable(entry: Entry, baseline: Baseline) -> Entry:
    """Return the entry with the probes on which the unbroken foreign engine is right."""
    if not isinstance(entry.work, Experiment):
        return entry
    return replace(entry, work=usable(entry.work, baseline))


def _evaluate_in_order(
    plan: Plan, baseline: Baseline, processes: int
) -> Generator[tuple[Entry, Evaluation], None, None]:
    """Yield each entry with its evaluation, in the order of the plan.

    The processes are forked once the baseline is complete, so that none of them repeats it.
    """
    fresh = [entry for entry in plan.entries if not isinstance(entry.work, Evaluation)]
    experiments = [entry.work for entry in fresh if isinstance(entry.work, Experiment)]
    _complete(baseline, experiments, processes)
    close_hosts()  # the libraries that those of this process have imported are not needed again
    common = plan.common
    if experiments and not common:
        shared = list(plan.choice.catalogue.shared_probes.values())
        common = unreached_reports(baseline.clean(experiments[0].clean, shared))
        baseline.cache.put(COMMON, {plan.choice.shared_key: common})
    _INHERITED.append((fresh, baseline, common))
    try:
        indices = range(len(fresh))
        with closing(map_in_parallel(_evaluate_nth, indices, min(processes, len(fresh)))) as stored:
            evaluations = _stored(fresh, stored, baseline.cache, common)
            for entry in plan.entries:
                cached = entry.work
                yield entry, cached if isinstance(cached, Evaluation) else next(evaluations)
    finally:
        _INHERITED.pop()


def _complete(baseline: Baseline, experiments: Sequence[Experiment], processes: int) -> None:
    """Compute the baseline on the probes of all experiments, so that each oracle starts once.

    Probes of different pages may share a name; their verdicts are computed in separate turns.
    """
    waiting = [(item.clean, probe) for item in experiments for probe in item.probes]
    if waiting:
        probes = {probe.identity: probe for _, probe in waiting}
        jobs = baseline.jobs(waiting[0][0], list(probes.values()))
        run_in_parallel(jobs, baseline.cache, processes)
    while waiting:
        turn: dict[str, Probe] = {}
        for _, probe in waiting:
            turn.setdefault(probe.name, probe)
        baseline.complete(waiting[0][0], list(turn.values()))
        waiting = [(clean, probe) for clean, probe in waiting if turn[probe.name] != probe]


def _stored(
    entries: Iterable[Entry], results: Iterable[bytes], cache: Cache, common: Sequence[RunReport]
) -> Iterator[Evaluation]:
    """Put each result into the cache, and yield its evaluation."""
    for entry, data in zip(entries, results, strict=True):
        stored = msgspec.msgpack.decode(data, type=StoredEvaluation, dec_hook=from_parts)
        cache.put(EVALUATIONS, {entry.key: stored})
        yield unpack(stored, common)


_INHERITED: list[tuple[Sequence[Entry], Baseline, Sequence[RunReport]]] = []
"""Data that forked processes inherit, so that it need not be sent."""


def _evaluate_nth(index: int) -> bytes:
    entries, baseline, common = _INHERITED[-1]
    evaluation = pack(_evaluate(entries[index], baseline), common)
    return msgspec.msgpack.encode(evaluation, enc_hook=as_parts)


def _evaluate(entry: Entry, baseline: Baseline) -> Evaluation:
    page, work = entry.page, entry.work
    assert not isinstance(work, Evaluation)
    own = {probe.name: size_of(probe) for probe in page.probes}
    pardon = page.front.pardon if isinstance(page.front, Break) else None
    if isinstance(work, Report):
        return Evaluation(page.front.family, work, pardon, own)
    report = run_lab(work, baseline)
    if isinstance(page.front, Break) and not any(run.caught_by for run in report.runs):
        report = add_stages(work, baseline, report)  # a survivor: say where the fault is lost
    clean = _clean_alarms(work, report, baseline)
    return Evaluation(page.front.family, report, pardon, own, clean)


def _clean_alarms(experiment: Experiment, report: Report, baseline: Baseline) -> CleanAlarms:
    """Return the alarms about the unpatched engine, on the probes that were judged."""
    page = experiment.page
    own = {probe.name for probe in page.probes}
    probes = [probe for probe in experiment.probes if probe.name not in report.left_out]
    alarms: CleanAlarms = {}
    for (probe, loss), run in baseline.clean(experiment.clean, probes).items():
        key = f"{page.id}/{probe}" if probe in own else probe
        alarms.setdefault(key, []).extend(false_alarms("clean", key, loss, run.alarms))
    return alarms
