"""The check of a break, a variant or a control: outcomes, claims, survival and rounding."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from harness.check import Finding, finding_from, finding_from_bug
from harness.check.controls import check_invariant
from harness.check.runner import run_page
from harness.check.static import check_spelling, check_uniqueness
from harness.core.errors import BreaklabError
from harness.core.message import Kind, Message, message, some
from harness.core.report import ClaimReport, Report, RunReport
from harness.diagnostics import DIAGNOSTICS
from harness.experiment.baseline import Context
from harness.experiment.lab import run_lab
from harness.experiment.patching import check_blocks
from harness.grade.probes import prepare_bare
from harness.pages.front_matter import Break, Pardon, ProbedFront, Variant
from harness.pages.page import Page
from harness.runs.cached_runs import why_missing

MOST_NAMES = 5
"""The largest number of probes that a finding names; the others are only counted."""


def check_probed_page(page: Page, context: Context) -> Iterator[Finding | Report]:
    """Yield a report per engine that the page names, and each difference between page and reports.

    Raises PageError, with its place, for a probe of the page that cannot be read.
    """
    yield from (finding_from(error, page.path) for error in check_blocks(page))
    yield from check_uniqueness(page, context)
    reports = []
    for item in _reports(page, context):
        yield item
        reports += [item] if isinstance(item, Report) else []
    runs = [run for report in reports for run in report.runs]
    crashes = any(run.outcome == "crash" and not run.agrees for run in runs)
    if misspelt := list(check_spelling(page, context)) if crashes else []:
        yield from misspelt
        return  # everything else would only follow from it
    if isinstance(page.front, Variant) and reports:
        yield from _check_shared_probes(page, context, reports[0])
    if reports:
        yield from _check_clean(page, context, reports[0].left_out)
        yield from check_conditioning(page, context)
    elsewhere = context.catalogue.diagnostics_elsewhere(page)
    yield from check_reports(page, [report.without(elsewhere) for report in reports])
    if isinstance(page.front, Break):
        yield from _check_questions(page, reports)
        yield from check_invariant(page, context, applies=bool(reports))


def _reports(page: Page, context: Context) -> Iterator[Finding | Report]:
    """Yield a report on the reference engine and on each variant that the page names.

    If the page cannot run on an engine, yield a finding instead.
    """
    for name in dict.fromkeys([None, *page.expect, *page.claims]):
        variant = context.catalogue.page(name, "variant") if name else None
        try:
            report = run_page(page, context, variant)
            assert isinstance(report, Report)
            yield report
        except BreaklabError as error:
            yield finding_from(error, page.path, page.body_line)
        except Exception as error:
            yield finding_from_bug(error, page.path)


def _check_clean(page: Page, context: Context, unusable: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each probe on which a diagnostic alarms on the unbroken engine.

    Such an alarm does not count as a catch, and it makes the matrix unreliable.
    """
    probes = [p for p in context.catalogue.probes_for(page) if p.name not in unusable]
    alarms: dict[str, list[str]] = {}
    for (probe, _), run in context.baseline.clean(context.engine, probes).items():
        alarms.setdefault(probe, []).extend(f"{name}: {text}" for name, text in run.alarms.items())
    for probe, texts in alarms.items():
        if texts:
            listed = "; ".join(dict.fromkeys(texts))
            problem = "a diagnostic raises an alarm on the unbroken engine "
            problem += f"with the probe `{probe}`: {listed}"
            remedy = "change the probe: on a correct engine, no diagnostic may raise an alarm"
            yield Finding(page.path, page.line_of("expect", probe), problem, remedy)


def check_reports(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield the differences between the page and the reports on it, one report per engine."""
    unusable: dict[str, Finding] = {}
    for report in reports:
        unusable = {**_unusable_probes(page, report), **unusable}
        yield from _check_outcomes(page, report, unusable)
    yield from unusable.values()
    if unusable:
        return  # what the page says about all of its probes cannot be judged
    for report in reports:
        yield from _check_claims(page, report)
    if isinstance(page.front, Break):
        yield from _check_completeness(page, page.front, reports)
        yield from _check_pardon(page, page.front.pardon, reports)
    elif isinstance(page.front, Variant):
        yield from _check_alarms(page, reports)


def check_on_engine(page: Page, report: Report, *, named: bool) -> Iterator[Finding]:
    """Yield why nothing can be judged from the report on a foreign engine.

    A page that has no site there, or cannot run, is a finding only if it was `named` or has a block
    for that engine.
    """
    own = page.diffs_for(report.engine.name)
    if report.misplaced:
        remedy = f"look at the site with `harness diff {page.id} --engine ENGINE`; write a block "
        remedy += f"```diff engine={report.engine.name} for this engine"
        yield Finding(page.path, page.line_of("expect"), str(report.misplaced), remedy)
    elif not report.runs and (named or own):
        reasons = [str(reason) for reason in report.left_out.values()]
        why = reasons[0] if reasons else "its patch has no site"
        problem = f"nothing can be judged on {report.engine.name}: {why}"
        remedy = "name a page that `harness list --engine ENGINE` shows, or write a block for it"
        yield Finding(page.path, own[0].line - 1 if own else page.body_line, problem, remedy)


def survivors(reports: Sequence[Report]) -> list[Report]:
    """Return the reports in which no diagnostic catches a break that corrupts silently.

    If the break has no effect anywhere, return all reports. A crash needs no diagnostic, but does
    not make up for a probe that is silently wrong. A break does not survive on an engine on which
    it has no effect.
    """
    runs = [run for report in reports for run in report.runs]
    if not any(run.outcome in ("silent-corruption", "crash") for run in runs):
        return [report for report in reports if report.runs]
    silent = [
        (report, [run for run in report.runs if run.outcome == "silent-corruption"])
        for report in reports
    ]
    return [report for report, runs in silent if runs and not any(run.caught_by for run in runs)]


# ----- Outcomes -----


def _unusable_probes(page: Page, report: Report) -> dict[str, Finding]:
    """Return a finding for each probe that says nothing about the break.

    Such a probe fails on the unbroken engine, or gives different numbers each time.
    """

    def finding(probe: str, problem: str, remedy: str) -> Finding:
        line = page.line_of(*_key("expect", report.engine.variant, probe))
        return Finding(page.path, line, f"the probe `{probe}` {problem}", remedy)

    seed = "draw from a seeded generator, `np.random.default_rng(0)`; a leaf is seeded already"
    correct = "correct the probe; if the engine must refuse it, name it `refuse-...`"
    return {
        probe: finding(
            probe,
            f"cannot be judged: {reason}",
            seed if reason.kind is Kind.UNREPEATABLE else correct,
        )
        for probe, reason in report.left_out.items()
    }


def _check_outcomes(page: Page, report: Report, unusable: Collection[str]) -> Iterator[Finding]:
    """Yield one finding per probe and expectation, for any number of losses."""
    variant = report.engine.variant
    for probe in dict.fromkeys(run.probe for run in report.runs):
        if probe in unusable:
            continue
        runs = [run for run in report.runs if run.probe == probe]
        for expected in dict.fromkeys(run.expected for run in runs if not run.agrees):
            wrong = [run for run in runs if not run.agrees and run.expected == expected]
            observed = " and ".join(dict.fromkeys(run.outcome for run in wrong))
            under = "" if len(wrong) == len(runs) else f" under the {wrong[0].loss} loss"
            where = f"`{probe}`{under}{_on(variant)}"
            if expected is None:
                problem = f"states no outcome for {where}; observed: {observed}"
                remedy = "once you can explain it, write"
            else:
                problem = f"says {expected} for {where}; observed: {observed}"
                remedy = "correct the patch or the probe; or, once you can explain it, write"
            yield Finding(
                page.path,
                page.line_of(*_key("expect", variant, probe)),
                f"{problem} ({wrong[-1].evidence})",
                f"{remedy} {_entry(variant, probe, runs)}",
            )


def _on(variant: str | None) -> str:
    return f" on {variant}" if variant else ""


def _key(table: str, variant: str | None, *rest: str) -> tuple[str, ...]:
    return (table, *([variant] if variant else []), *rest)


def _entry(variant: str | None, probe: str, runs: Sequence[RunReport]) -> str:
    """Return the line that states what was observed, and the table that it belongs to."""
    value = value_of(runs, [run.outcome for run in runs])
    return f"`{probe} = {value}` in [{'.'.join(_key('expect', variant))}]"


def value_of(runs: Sequence[RunReport], values: Sequence[str]) -> str:
    """Return the value of a probe: one outcome, or one per loss if the runs differ."""
    if len({run.outcome for run in runs}) == 1:
        return f'"{values[0]}"'
    entries = (f'{run.loss} = "{value}"' for run, value in zip(runs, values, strict=True))
    return f"{{ {', '.join(entries)} }}"


def _check_completeness(page: Page, front: Break, reports: Sequence[Report]) -> Iterator[Finding]:
    """A break states what it does, and which diagnostics catch it."""
    if not page.expect.get(None):
        remedy = '`harness list --probes` shows them; start with `PROBE = "?"`'
        yield Finding(page.path, page.line_of("expect"), "states no outcome for any probe", remedy)
    ran = bool(reports) and bool(reports[0].runs)
    if ran and not front.pardon and not page.claims[None].caught_by:
        observed = dict.fromkeys(name for run in reports[0].runs for name in run.caught_by)
        line = page.line_of("diagnostics", "caught_by")
        remedy = "name at least one in [diagnostics]; an uncaught break needs a pardon"
        problem = f"claims no `caught_by`; observed: {', '.join(observed) or 'no diagnostic'}"
        yield Finding(page.path, line, problem, remedy)


def _check_questions(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield the questions that the page's runs do not answer."""
    remedy = "write names, attributes and indices, such as `a.grad.shape`, `output[0]`, `outcome`"
    for report in reports:
        for position, question in enumerate(report.questions):
            if question.problem:
                line = page.line_of("ask", position, "answer")
                yield Finding(page.path, line, question.problem, remedy)


# ----- Claims -----


def _check_claims(page: Page, report: Report) -> Iterator[Finding]:
    for claim in report.claims:
        if claim.agrees:
            continue
        variant = report.engine.variant
        line = page.line_of(*_key("diagnostics", variant, claim.claim))
        statement = f"{claim.claim.replace('_', ' ')} {claim.diagnostic}{_on(variant)}"
        if claim.agrees is False:
            problem = f"says {statement}; observed: {claim.evidence}"
            yield Finding(page.path, line, problem, _claim_remedy(claim, report))
        elif missing := _missing_library(claim.diagnostic):
            problem = f"`{statement}` was not checked: {claim.evidence}"
            yield Finding(page.path, line, problem, f"install {missing} to check it", 0)
        elif any(claim.diagnostic in run.declined for run in report.runs):
            problem = f"says {statement}, which judged no probe; it {claim.evidence}"
            remedy = "remove it, or add a probe that it can judge"
            yield Finding(page.path, line, problem, remedy)
        else:
            problem = f"says {statement}, which ran on no probe: {claim.evidence}"
            remedy = "remove it, or add a probe that it can run on"
            yield Finding(page.path, line, problem, remedy)


def _claim_remedy(claim: ClaimReport, report: Report) -> str:
    other = {"caught_by": "missed_by", "missed_by": "caught_by"}[claim.claim]
    if claim.claim == "caught_by":
        return f"add a probe that it catches; or, if you can explain it, move it to `{other}`"
    if any(claim.diagnostic in run.caught_by for run in report.runs):
        return f"if you can explain it, move it to `{other}`: one alarm is a catch"
    return "remove it, or add a probe on which the break is wrong and which it can judge"


def _missing_library(diagnostic: str) -> str | None:
    """Return the library that a diagnostic compares with, if it is not installed."""
    library = {entry.name: entry.library for entry in DIAGNOSTICS}.get(diagnostic)
    return library if library and why_missing(library) else None


def _check_shared_probes(page: Page, context: Context, report: Report) -> Iterator[Finding]:
    """A variant must also be correct on the shared probes that its page does not name.

    If the dtype differs on a probe that the page names, it may differ on the others too.
    """
    shared, baseline = context.catalogue.shared_probes.items(), context.baseline
    probes = [probe for name, probe in shared if name not in page.expect[None]]
    if _check_shared_probes not in baseline.memo:
        # For all variants of a check.
        baseline.memo[_check_shared_probes] = baseline.bare(select=True)
    others = run_lab(prepare_bare(page, probes, context), baseline.memo[_check_shared_probes])
    allowed = {"dtype"} & {run.kind for run in report.runs}
    wrong = {
        run.probe: run
        for run in others.runs
        if run.outcome in ("crash", "silent-corruption") and run.kind not in allowed
    }
    if wrong:
        (first, run), *more = wrong.items()
        names = some([f"`{name}`" for name, _ in more], MOST_NAMES)
        also = f", and also {names}" if more else ""
        problem = f"differs on the shared probe `{first}`{also}: {run.outcome} ({run.evidence})"
        remedy = "correct the patch; or, if an equally correct engine may differ there, explain "
        remedy += f"why, and write {_entry(None, first, [run])}"
        yield Finding(page.path, page.line_of("expect"), problem, remedy)


def _check_alarms(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """A variant is correct, so an alarm on it is false."""
    for report in reports:
        for run in report.runs:
            for name, alarm in run.alarms.items():
                loss = f", {run.loss} loss" if run.loss else ""
                problem = f"`{name}` raises a false alarm on `{run.probe}`{loss}: {alarm}"
                remedy = "either the variant is not a correct rewrite, or the diagnostic is wrong"
                yield Finding(page.path, page.line_of("expect", run.probe), problem, remedy)


# ----- Survival -----


def _check_pardon(
    page: Page, pardon: Pardon | None, reports: Sequence[Report]
) -> Iterator[Finding]:
    """A break that no diagnostic catches needs a pardon; one that is caught must not have it."""
    has_runs, alive = any(report.runs for report in reports), survivors(reports)
    missing = ", ".join(sorted(filter(None, {_missing_library(d.name) for d in DIAGNOSTICS})))
    if alive and missing and not pardon:
        problem = f"no diagnostic catches it here, where {missing} is not installed"
        yield Finding(page.path, 1, problem, f"install {missing} to decide", 0)
    elif alive and not pardon:
        where = _on(alive[0].engine.variant) or f" on {alive[0].engine.name}"
        remedy = (
            "add a probe that exposes it; or, if none can, `[pardon]` with `reason` and `sentence`"
        )
        yield Finding(page.path, 1, f"a survivor: no diagnostic catches it{where}", remedy)
    elif pardon and has_runs and not alive:
        problem = "has a pardon, but does not need one: it is caught"
        yield Finding(page.path, page.line_of("pardon"), problem, "remove [pardon]")
    outcomes = {run.outcome for report in reports for run in report.runs}
    if pardon and pardon.reason == "equivalent" and outcomes & {"silent-corruption", "crash"}:
        problem = "has a pardon as `equivalent`, but something observable differs"
        remedy = "give another reason: an equivalent change has no observable effect"
        yield Finding(page.path, page.line_of("pardon", "reason"), problem, remedy)


# ----- Rounding -----


ILL_CONDITIONED = "ill_conditioned"
"""The table of the front matter in which a page states such probes, each with a reason."""


def check_conditioning(page: Page, context: Context) -> Iterator[Finding]:
    """Yield the ill-conditioned probes that the page does not state, and those it need not state.

    If rounding decided a result, a correct rewrite could be called wrong, or a bug right.

    Raises EnvironmentProblem if the engine does not load.
    """
    for probe, reason in unstated(page, context).items():
        problem = f"the probe `{probe}` is {reason}"
        remedy = "choose other inputs, or another optimizer: nothing should divide by "
        remedy += "a number that is 0 up "
        remedy += "to rounding, or subtract nearly equal numbers; if the page is about rounding, "
        remedy += f'write `{ILL_CONDITIONED} = {{ {probe} = "the reason" }}`'
        yield Finding(page.path, page.line_of("expect", probe), problem, remedy)
    stated, found = _stated(page), _ill_conditioned(page, context)
    own = {probe.name for probe in page.probes}
    for probe in sorted(stated.keys() - found.keys()):
        problem = f"says that `{probe}` is ill-conditioned, "
        problem += "but it is not" if probe in own else "which is not a probe of the page"
        yield Finding(
            page.path,
            page.line_of(ILL_CONDITIONED, probe),
            problem,
            f"remove it from `{ILL_CONDITIONED}`",
        )


def unstated(page: Page, context: Context) -> dict[str, Message]:
    """Return the ill-conditioned probes that the page does not state, with the reasons.

    Raises EnvironmentProblem if the engine does not load.
    """
    stated = _stated(page)
    return {
        probe: message("ill-conditioned: {reason}", reason=reason)
        for probe, reason in _ill_conditioned(page, context).items()
        if probe not in stated
    }


def _stated(page: Page) -> dict[str, str]:
    return page.front.ill_conditioned if isinstance(page.front, ProbedFront) else {}


def _ill_conditioned(page: Page, context: Context) -> dict[str, Message]:
    if not page.probes:
        return {}
    return context.baseline.ill_conditioned(context.engine, page.probes)
