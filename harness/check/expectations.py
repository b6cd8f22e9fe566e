"""A page against what was observed: its outcomes, its claims, and whether its break survives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from harness.core.finding import Finding
from harness.core.report import ClaimReport, Report, RunReport
from harness.diagnostics import DIAGNOSTICS
from harness.pages.page import Page
from harness.runs.oracles import LIBRARIES


def check_observed(page: Page, reports: Sequence[Report]) -> list[Finding]:
    """Where the page and the reports on it part; one report an engine."""
    found = [
        finding
        for report in reports
        for finding in (
            *_check_probes(page, report),
            *_check_outcomes(page, report),
            *_check_claims(page, report),
        )
    ]
    if page.front.kind == "break":
        found += [*_check_silence(page, reports), *_check_pardon(page, reports)]
    if page.front.kind == "variant":
        found += _check_alarms(page, reports)
    return found


def survivors(reports: Sequence[Report]) -> list[Report]:
    """The reports on which nobody catches the break, though it corrupts silently there.

    All of them where it shows nowhere. A crash needs nobody to catch it, so it does not pay for
    another probe's silence; and an engine that repairs the break is no place where it survives.
    """
    runs = [run for report in reports for run in report.runs]
    if not any(run.outcome in ("silent-corruption", "crash") for run in runs):
        return [report for report in reports if report.runs]
    return [report for report in reports if _is_uncaught(report)]


def _is_uncaught(report: Report) -> bool:
    silent = [run for run in report.runs if run.outcome == "silent-corruption"]
    return bool(silent) and not any(run.caught_by for run in silent)


# ----- Outcomes -----


def _check_probes(page: Page, report: Report) -> Iterator[Finding]:
    """A probe that fails on the unbroken engine says nothing of the break."""
    for run in report.runs:
        if (failure := run.wrong_reason.get("crash")) and not run.probe.startswith("refuse-"):
            line = page.line_of(*_key("expect", report.engine.variant, run.probe))
            problem = f"the probe `{run.probe}` fails on the unbroken engine as well: {failure}"
            remedy = "correct the probe; one that has to be refused is called `refuse-...`"
            yield Finding(page.path, line, problem, remedy)


def _check_outcomes(page: Page, report: Report) -> Iterator[Finding]:
    """One finding a probe and expectation, however many losses it speaks of."""
    variant = report.engine.variant
    for probe in dict.fromkeys(run.probe for run in report.runs):
        runs = [run for run in report.runs if run.probe == probe]
        for expected in dict.fromkeys(run.expected for run in runs if not run.agrees):
            wrong = [run for run in runs if not run.agrees and run.expected == expected]
            seen = " and ".join(dict.fromkeys(run.outcome for run in wrong))
            where = f"`{probe}`{_losses(runs, wrong)}{_on(variant)}"
            if expected is None:
                problem = f"states no outcome of {where}; observed: {seen}"
                remedy = "once you can say why, write"
            else:
                problem = f"says {expected} of {where}; observed: {seen}"
                remedy = "mend the patch or the probe; or, once you can say why, write"
            yield Finding(
                page.path,
                page.line_of(*_key("expect", variant, probe)),
                f"{problem} ({wrong[-1].evidence})",
                f"{remedy} {_entry(variant, probe, runs)}",
            )


def _losses(runs: Sequence[RunReport], wrong: Sequence[RunReport]) -> str:
    return "" if len(wrong) == len(runs) else f" under the {wrong[0].loss} loss"


def _on(variant: str | None) -> str:
    return f" on {variant}" if variant else ""


def _key(table: str, variant: str | None, *rest: str) -> tuple[str, ...]:
    return (table, *([variant] if variant else []), *rest)


def _entry(variant: str | None, probe: str, runs: Sequence[RunReport]) -> str:
    """The line that would state what was observed, and the table that it belongs to."""
    said = f'"{runs[0].outcome}"'
    if len({run.outcome for run in runs}) > 1:
        losses = ", ".join(f'{run.loss} = "{run.outcome}"' for run in runs)
        said = f"{{ {losses} }}"
    return f"`{probe} = {said}` in [{'.'.join(_key('expect', variant))}]"


def _check_silence(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """A break says what it does, and who notices."""
    if not page.expect.get(None):
        remedy = '`harness list --probes` shows them; begin with `add-new-axis = "?"`'
        yield Finding(page.path, page.line_of("expect"), "states no outcome of any probe", remedy)
    ran = bool(reports) and bool(reports[0].runs)
    if ran and not page.front.pardon and not page.claims[None].caught_by:
        seen = dict.fromkeys(name for run in reports[0].runs for name in run.caught_by)
        line = page.line_of("diagnostics", "caught_by")
        remedy = "name at least one under [diagnostics]; a break that nobody catches needs a pardon"
        problem = f"claims no `caught_by`; observed: {', '.join(seen) or 'no diagnostic'}"
        yield Finding(page.path, line, problem, remedy)


# ----- Claims -----


def _check_claims(page: Page, report: Report) -> Iterator[Finding]:
    for claim in report.claims:
        if claim.agrees:
            continue
        variant = report.engine.variant
        line = page.line_of(*_key("diagnostics", variant, claim.claim))
        words = f"{claim.claim.replace('_', ' ')} {claim.diagnostic}{_on(variant)}"
        if claim.agrees is False:
            problem = f"says {words}; observed: {claim.evidence}"
            yield Finding(page.path, line, problem, _claim_remedy(claim))
        elif missing := _missing_library(claim.diagnostic):
            problem = f"`{words}` was not held against anything: {claim.evidence}"
            yield Finding(page.path, line, problem, f"install {missing} to hold it", 0)
        else:
            problem = f"says {words}, which was asked on no probe: {claim.evidence}"
            remedy = "take it out, or add a probe that it can look at"
            yield Finding(page.path, line, problem, remedy)


def _claim_remedy(claim: ClaimReport) -> str:
    other = {"caught_by": "missed_by", "missed_by": "caught_by"}[claim.claim]
    if claim.claim == "caught_by":
        return f"add the probe on which it does; or, if you can say why, move it to `{other}`"
    return f"if you can say why, move it to `{other}`: one alarm is a catch"


def _missing_library(diagnostic: str) -> str | None:
    """The library that this diagnostic asks, where it is not installed."""
    asked = {each.name: each.library for each in DIAGNOSTICS}.get(diagnostic)
    module = LIBRARIES[asked].dialect.module if asked else None
    return asked if module and find_spec(module) is None else None


def _check_alarms(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """A variant is correct, so an alarm on it is false."""
    for report in reports:
        for run in report.runs:
            for name, message in run.alarms.items():
                loss = f", {run.loss} loss" if run.loss else ""
                problem = f"`{name}` raises a false alarm on `{run.probe}`{loss}: {message}"
                remedy = "the variant is no correct rewrite, or the diagnostic has to be mended"
                yield Finding(page.path, page.line_of("expect", run.probe), problem, remedy)


# ----- Survival -----


def _check_pardon(page: Page, reports: Sequence[Report]) -> Iterator[Finding]:
    """A break that no diagnostic catches needs a pardon; one that is caught must not have it."""
    tried, alive = any(report.runs for report in reports), survivors(reports)
    pardon, line = page.front.pardon, page.line_of("pardon")
    unasked = sorted(filter(None, {_missing_library(each.name) for each in DIAGNOSTICS}))
    if alive and unasked and not pardon:
        problem = f"no diagnostic catches it here, where {', '.join(unasked)} cannot be asked"
        yield Finding(page.path, 1, problem, f"install {', '.join(unasked)} to decide", 0)
    elif alive and not pardon:
        where = _on(alive[0].engine.variant) or f" on {alive[0].engine.name}"
        remedy = (
            "add a probe that exposes it; or `[pardon]` with `reason` and `sentence`, if none can"
        )
        yield Finding(page.path, 1, f"a survivor: no diagnostic catches it{where}", remedy)
    elif pardon and tried and not alive:
        problem = "asks for a pardon, and does not need one: it is caught"
        yield Finding(page.path, line, problem, "take [pardon] out")
    outcomes = {run.outcome for report in reports for run in report.runs}
    if pardon and pardon.reason == "equivalent" and outcomes & {"silent-corruption", "crash"}:
        problem = "asks for a pardon as `equivalent`, and something observable differs"
        remedy = "give another reason: an equivalent change alters nothing observable"
        yield Finding(page.path, page.line_of("pardon", "reason"), problem, remedy)
