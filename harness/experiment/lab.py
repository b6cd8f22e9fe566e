"""The whole lab in one function: a page and an engine in, a report out.

Everything that shows a report (terminal, JSON) and everything that needs one (command line, matrix,
tests) calls `run_lab`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from harness.answer_key.outcome import Judgement, judge
from harness.answer_key.stage import stage_of
from harness.core.errors import BreaklabError, DoesNotApply, InternalError
from harness.core.message import Message, message
from harness.core.report import InPlaceRun, Report, RunReport
from harness.core.run import Run
from harness.core.vocabulary import Outcome, headline
from harness.diagnostics import Observation
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline, CleanRun, Context, RunId
from harness.experiment.description import (
    JudgedRun,
    RunPair,
    describe,
    describe_unreached,
    explain,
)
from harness.experiment.patching import DISGUISED, Experiment, prepare, with_in_place
from harness.experiment.statements import answer_question, blind_probes, compare_claims, quotable
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break
from harness.pages.page import Page
from harness.pages.probe import REFUSED, Probe


def run_lab(
    experiment: Experiment,
    baseline: Baseline,
    announce: Callable[[Report], None] | None = None,
    *,
    causes: bool = False,
) -> Report:
    """Run both engines, judge, run the diagnostics, and compare everything with the page.

    `announce` is called with a report without verdicts and claims as soon as the outcomes are
    known: the oracles, which may be slow to start, run afterwards. With `causes`, the report also
    says what wrong arrays look like, and where they come from.
    Raises EnvironmentProblem if the clean engine does not load.
    """
    start = time.perf_counter()
    chosen = usable(experiment, baseline)
    experiment = chosen.with_guards()
    clean = baseline.clean_runs(experiment.clean, experiment.probes)
    experiment = _runnable(experiment, baseline, clean)
    runs = baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    if experiment.rewritten:
        runs = [msgspec.structs.replace(run, reached=[0]) for run in runs]
    judged = _judge_all(experiment, runs, clean)
    judged = _look_inside(experiment, baseline, judged, causes=causes)
    known = {
        "path": _path(runs),
        "in_place": _run_in_place(experiment, baseline, clean),
        "questions": [answer_question(question, judged) for question in experiment.questions],
        "blind_to": _blind_to(experiment, judged),
    }
    if announce and not experiment.guards:
        reports = _describe_all(experiment, baseline, judged)
        report = _report(experiment, baseline, reports, time.perf_counter() - start)
        announce(msgspec.structs.replace(report, claims=[], **known))
    answer_key = baseline.clean(experiment.clean, experiment.probes)
    judged = [replace(item, clean=answer_key[item.pair]) for item in judged]
    if experiment.guards:
        from harness.experiment.placement import examine  # for foreign engines only

        misplaced, silent = examine(experiment, baseline, judged)
        if misplaced:
            return report_misplaced(experiment, misplaced, time.perf_counter() - start)
        experiment = _only(chosen, experiment, silent)
        names = {probe.name for probe in experiment.probes}
        judged = [item for item in judged if item.run.probe in names]
    runs = baseline.with_own(experiment.broken, experiment.probes, [item.run for item in judged])
    judged = [replace(item, run=run) for item, run in zip(judged, runs, strict=True)]
    reports = _describe_all(experiment, baseline, judged)
    if causes:
        reports = _explain_all(experiment, reports, judged)
    report = _report(experiment, baseline, reports, time.perf_counter() - start)
    return msgspec.structs.replace(report, **known)


def usable(experiment: Experiment, baseline: Baseline) -> Experiment:
    """Return the experiment with the probes on which an unbroken foreign engine is right."""
    if not experiment.clean.foreign or experiment.left_out is not None:
        return experiment
    if not experiment.foreign:
        return experiment  # it is itself the reference
    from harness.experiment.conformance import fit, usable_probes  # for foreign engines only

    fits = fit(experiment.clean, experiment.with_guards().probes, baseline)
    names = usable_probes(fits.values())
    left_out = {p.name: fits[p.name].reason for p in experiment.probes if p.name not in names}
    others = [other for name, other in experiment.stand_ins.items() if name in left_out]
    running = usable_probes(fit(experiment.clean, others, baseline).values())
    stand_ins = {n: other for n, other in experiment.stand_ins.items() if other.name in running}
    probes = (stand_ins.get(probe.name, probe) for probe in experiment.probes)
    return replace(
        experiment,
        probes=tuple(probe for probe in probes if probe.name in names | running),
        guards=tuple(probe for probe in experiment.guards if probe.name in names),
        stand_ins=stand_ins,
        left_out={name: reason for name, reason in left_out.items() if name not in stand_ins},
    )


def _runnable(experiment: Experiment, baseline: Baseline, clean: Mapping[RunId, Run]) -> Experiment:
    """Return the experiment without the probes that fail on the clean engine, or give different
    numbers each time.

    The clean engine is itself the reference.
    """
    refused = {probe.name for probe in experiment.probes if probe.refused}
    reasons = {
        run.probe: message(
            "it fails on the unbroken engine: {failure}", failure=run.failure.sentence
        )
        for run in clean.values()
        if run.failure and run.probe not in refused
    }
    reasons |= baseline.unrepeatable(experiment.clean, experiment.probes)
    if not reasons:
        return experiment
    return replace(
        experiment,
        probes=tuple(probe for probe in experiment.probes if probe.name not in reasons),
        left_out={**(experiment.left_out or {}), **reasons},
    )


def _only(chosen: Experiment, experiment: Experiment, silent: Mapping[str, Message]) -> Experiment:
    """Return the experiment with those of the chosen probes that could be judged."""
    names = [probe.name for probe in chosen.probes]
    unjudged = {**(experiment.left_out or {}), **silent}
    own = {name: unjudged[name] for name in names if name in unjudged}
    return replace(
        experiment,
        probes=tuple(p for p in experiment.probes if p.name in names and p.name not in own),
        left_out={**(chosen.left_out or {}), **own},
    )


def unreached_reports(clean: Mapping[RunId, CleanRun]) -> list[RunReport]:
    """Return the reports on runs that never reach a patch, without what a page states.

    Probes that the clean engine refuses are left out: they may fail in another way elsewhere.
    """
    return [
        describe_unreached(JudgedRun(run, own, judge(run, own.run)))
        for run, own in ((Run(*pair), own) for pair, own in clean.items())
        if not own.run.failure
    ]


def add_stages(experiment: Experiment, baseline: Baseline, report: Report) -> Report:
    """Return the report with the stages that a baseline with `select` leaves out."""
    names = {run.probe for run in report.runs if run.stage is None}
    probes = [probe for probe in experiment.probes if probe.name in names]
    inside = inside_runs(experiment, baseline, probes)
    runs, guard_is_lost = [], loses_guard(experiment, report.runs)
    for run in report.runs:
        if run.stage is None and (runs_inside := inside.get((run.probe, run.loss))):
            stage, why = stage_of(
                run.outcome,
                runs_inside.infection,
                run.caught_by,
                correct=is_correct(experiment.page),
                kind=run.kind,
                guard_is_lost=guard_is_lost,
            )
            run = msgspec.structs.replace(run, stage=stage, why=why)
        runs.append(run)
    return msgspec.structs.replace(report, runs=runs)


def is_correct(page: Page) -> bool:
    """Whether a page changes nothing but how something is computed."""
    return page.front.kind == "variant"


def loses_guard(experiment: Experiment, results: Iterable[Judgement | RunReport]) -> bool:
    """Whether the broken engine accepts what it must refuse, as observed or as the page states."""
    stated = (
        (probe, outcome)
        for probe, outcomes in experiment.page.expect[None].items()
        for outcome in (outcomes.values() if isinstance(outcomes, dict) else [outcomes])
    )
    return any(result.kind == "guard-lost" for result in results) or any(
        probe.startswith(REFUSED) and outcome == "silent-corruption" for probe, outcome in stated
    )


def misplacement(experiment: Experiment, baseline: Baseline) -> Message | None:
    """Return why the patch is not the change that the page describes; only its guards are run."""
    if not experiment.guards:
        return None
    guarded = usable(replace(experiment, probes=()), baseline)
    return run_lab(guarded, baseline.bare(select=True)).misplaced


def report_misplaced(experiment: Experiment, reason: Message, seconds: float) -> Report:
    """Return the report on a misplaced patch: no runs, and the reason."""
    return msgspec.structs.replace(
        report_absence(experiment.page, experiment.clean, experiment.variant),
        sites=experiment.sites,
        diff=experiment.diff,
        headline="misplaced",
        misplaced=reason,
        seconds=round(seconds, 3),
    )


def report_absence(page: Page, engine: Engine, variant: str | None) -> Report:
    """Return the report on a patch without a site: no runs, and the headline `does-not-apply`."""
    return Report(
        schema=1,
        break_=page.id,
        kind=page.front.kind,
        engine=engine.report(variant),
        sites=[],
        diff="",
        headline="does-not-apply",
        agrees=False,
        seconds=0.0,
        runs=[],
        claims=[],
    )


# ----- The steps -----


def _judge_all(
    experiment: Experiment, runs: Sequence[Run], clean: Mapping[RunId, Run]
) -> list[JudgedRun]:
    """Return every run with its outcome."""
    judged = []
    for run in runs:
        correct, losses = clean[run.probe, run.loss], experiment.probe(run.probe).losses
        siblings = [clean[run.probe, loss] for loss in losses if loss != run.loss]
        judged.append(JudgedRun(run, CleanRun(correct, {}, {}), judge(run, correct, siblings)))
    return judged


def _run_in_place(
    experiment: Experiment, baseline: Baseline, clean: Mapping[RunId, Run]
) -> list[InPlaceRun]:
    """Return the outcomes on the variant that adds gradients in place.

    The answer key is that of minigrad: a variant is a correct rewrite, which its own page proves,
    and running it unbroken as well would take another child process.
    """
    engine = experiment.broken_in_place
    if engine is None:
        return []
    runs = baseline.bare().broken(experiment.clean, engine, experiment.probes)
    return [
        InPlaceRun(*item.pair, item.judgement.outcome, item.judgement.evidence, item.run.repeatable)
        for item in _judge_all(experiment, runs, clean)
    ]


def _describe_all(
    experiment: Experiment, baseline: Baseline, judged: Sequence[JudgedRun]
) -> list[RunReport]:
    """Return the report on every run, with what the page states."""
    reports, guard_is_lost = [], loses_guard(experiment, [item.judgement for item in judged])
    for item in judged:
        run, clean = item.run, item.clean
        if run.reached or run.failure:
            observation = Observation(experiment.probe(run.probe), run, clean.oracles)
            verdicts = baseline.verdicts_beside(clean, observation) if clean.verdicts else {}
            report = describe(
                item,
                verdicts,
                correct=is_correct(experiment.page),
                guard_is_lost=guard_is_lost,
            )
        else:
            report = describe_unreached(item)
        expected = experiment.expected(*item.pair)
        if expected is not None:
            agrees = expected == item.judgement.outcome
            report = msgspec.structs.replace(report, expected=expected, agrees=agrees)
        reports.append(report)
    return reports


def _look_inside(
    experiment: Experiment, baseline: Baseline, judged: Sequence[JudgedRun], *, causes: bool
) -> list[JudgedRun]:
    """Return the runs; those whose outcome it explains hold what was recorded inside them.

    Behind a right result, a wrong number may be hidden; for a wrong gradient, the backward walk
    shows where it comes from.
    """
    hidden, wrong = set[str](), set[str]()
    if not (baseline.select or experiment.rewritten):
        hidden = _with_outcome(judged, {DISGUISED})
    if causes and experiment.clean.dialect.trace:
        wrong = _with_outcome(judged, WRONG)
    probes = [
        probe
        for probe in experiment.probes
        if probe.name in hidden or (probe.name in wrong and probe.kind == "gradient")
    ]
    inside = inside_runs(experiment, baseline, probes)
    return [replace(item, inside=inside.get(item.pair)) for item in judged]


def inside_runs(
    experiment: Experiment, baseline: Baseline, probes: Sequence[Probe]
) -> dict[RunId, RunPair]:
    """Return what was recorded inside the runs of these probes, on both engines."""
    broken = baseline.inside(experiment.broken, probes)
    clean = baseline.inside(experiment.unpatched, probes)
    return {pair: RunPair(broken.get(pair) or Run(*pair), run) for pair, run in clean.items()}


def _explain_all(
    experiment: Experiment, reports: Sequence[RunReport], judged: Sequence[JudgedRun]
) -> list[RunReport]:
    """Return the reports with what wrong arrays look like and where they come from."""
    wrong, explained = _with_outcome(judged, WRONG), []
    for report, item in zip(reports, judged, strict=True):
        constants = experiment.probe(item.run.probe).numbers | experiment.numbers
        if item.run.probe not in wrong:
            item = replace(item, inside=None)
        explained.append(msgspec.structs.replace(report, **explain(item, constants)))
    return explained


WRONG: Collection[Outcome] = ("silent-corruption", "crash")


def _with_outcome(judged: Iterable[JudgedRun], outcomes: Collection[Outcome]) -> set[str]:
    """Return the names of the probes on which the break has one of these outcomes."""
    return {item.run.probe for item in judged if item.judgement.outcome in outcomes}


def _path(runs: Sequence[Run]) -> Literal["swapped", "reloaded"] | None:
    """Return how the patch was applied to the engine."""
    reached = [run.swapped for run in runs if run.reached or run.failure]
    return None if not reached else "swapped" if all(reached) else "reloaded"


def _blind_to(experiment: Experiment, judged: Sequence[JudgedRun]) -> list[str]:
    """Return the probes that are silently wrong and satisfy the page's assertion."""
    silent = [item for item in judged if item.judgement.outcome == "silent-corruption"]
    assertion = experiment.page.assertion
    return blind_probes(assertion, silent) if assertion else []


def _report(
    experiment: Experiment, baseline: Baseline, runs: list[RunReport], seconds: float
) -> Report:
    names = [diagnostic.name for diagnostic in baseline.diagnostics]
    foreign = experiment.foreign  # a page makes claims only about its own engine
    unclaimed = foreign or experiment.rewritten or not names
    claims = [] if unclaimed else compare_claims(experiment.page, experiment.variant, names, runs)
    partial, unjudged = None, list[str]()
    if foreign:
        if not any(run.outcome in WRONG for run in runs):
            unjudged = [name for name in experiment.left_out or () if experiment.shows_on(name)]
        from harness.experiment.placement import partial_change

        partial = partial_change(experiment.clean, experiment.broken.sites)
    report = Report(
        schema=1,
        break_=experiment.page.id,
        kind=experiment.page.front.kind,
        engine=experiment.engine,
        sites=experiment.sites,
        diff=experiment.diff,
        headline=headline({run.outcome for run in runs}),
        agrees=bool(runs)
        and all(run.agrees for run in runs)
        and all(claim.agrees is not False for claim in claims)
        and (foreign or not experiment.left_out),
        seconds=round(seconds, 3),
        runs=runs,
        claims=claims,
        missing=baseline.missing(),
        left_out=dict(experiment.left_out or {}),
        partial=partial,
        unjudged=unjudged,
    )
    ends = [(run.probe, run.loss, run.outcome) for run in runs]
    return msgspec.structs.replace(report, **quotable(experiment, ends))


# ----- Breaks on a foreign engine, page by page -----
#
# The results are compared with what each page states. A difference is not a failure, since pages
# are written about minigrad, unless it shows that the patch is not the change that the page
# describes.


def breaks_for(catalogue: Catalogue, ids: Sequence[str] = ()) -> list[Page]:
    """Return the breaks with these ids, or all breaks.

    Raises UsageError for an id that no break has, and PageError for a page that cannot be read.
    """
    if ids:
        return [catalogue.page(page_id, "break") for page_id in ids]
    return [page for page in catalogue.valid_pages() if isinstance(page.front, Break)]


def compare_pages(pages: Sequence[Page], context: Context) -> Iterator[Report]:
    """Yield a report on each break: `does-not-apply` if no site gives valid Python."""
    for page in pages:
        try:
            yield run_lab(prepare(page, context.catalogue, context.engine), context.baseline)
        except DoesNotApply:
            yield report_absence(page, context.engine, None)
        except InternalError:
            raise
        except BreaklabError as error:
            reason = {"the patch": error.problem.splitlines()[0]}
            absence = report_absence(page, context.engine, None)
            yield msgspec.structs.replace(absence, left_out=reason)


# ----- A break with everything that was recorded about its runs -----


@dataclass(frozen=True)
class Recorded:
    """The runs of a page on the unbroken and on the broken engine."""

    page: Page
    report: Report
    probes: Sequence[Probe]
    pairs: Mapping[RunId, RunPair]
    """The runs of both engines, with the backward walks of gradient probes."""


def record(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    baseline: Baseline,
    variant: Page | None = None,
) -> Recorded:
    """Run a page's probes, as `harness break` does, and return everything that was recorded."""
    experiment = with_in_place(prepare(page, catalogue, engine, variant=variant), catalogue)
    report = run_lab(experiment, baseline, causes=True)
    clean = baseline.clean_runs(experiment.clean, experiment.probes)
    broken = baseline.broken(experiment.clean, experiment.broken, experiment.probes)
    gradients = [probe for probe in experiment.probes if probe.kind == "gradient"]
    inside = inside_runs(experiment, baseline, gradients)
    pairs = {(run.probe, run.loss): RunPair(run, clean[run.probe, run.loss]) for run in broken}
    for pair, walked in inside.items():
        pairs[pair] = RunPair(
            msgspec.structs.replace(pairs[pair].broken, trace=walked.broken.trace),
            msgspec.structs.replace(pairs[pair].clean, trace=walked.clean.trace),
        )
    return Recorded(page, report, experiment.probes, pairs)
