"""What a page claims about diagnostics, compared with the runs of all its probes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.core.errors import PageError
from harness.core.message import joined, message
from harness.core.report import ClaimReport, RunReport
from harness.pages.page import Page


def compare_claims(
    page: Page, variant: str | None, diagnostics: Collection[str], runs: Sequence[RunReport]
) -> list[ClaimReport]:
    """Return each claim that the page makes for this variant, with what was observed.

    `caught_by`: an alarm on at least one run. `missed_by`: silent on at least one run, and never an
    alarm. Nothing is compared unless all of the page's probes ran.

    Raises PageError for a claim about a diagnostic that does not exist.
    """
    claims = page.claims.get(variant)
    stated = {name for table in page.expect.values() for name in table}
    if claims is None or not {run.probe for run in runs} >= stated:
        return []
    reports = []
    for claim, names in (("caught_by", claims.caught_by), ("missed_by", claims.missed_by)):
        for name in names:
            if name not in diagnostics:
                raise PageError(
                    page.path,
                    1,
                    f"key `diagnostics.{claim}` names an unknown diagnostic `{name}`",
                    f"the diagnostics are {', '.join(sorted(diagnostics))}",
                )
            reports.append(_compare(name, claim, runs))
    return reports


def _compare(name: str, claim: str, runs: Sequence[RunReport]) -> ClaimReport:
    catches = [
        message("{probe}: {alarm}", probe=run.probe, alarm=run.alarms[name])
        for run in runs
        if name in run.caught_by
    ]
    misses = [run for run in runs if name in run.missed_by]
    if not catches and not misses:
        declined = dict.fromkeys(run.declined[name] for run in runs if name in run.declined)
        skipped = dict.fromkeys(run.skipped[name] for run in runs if name in run.skipped)
        if declined:
            evidence = message("declined: {reason}", reason=joined(declined))
        elif skipped:
            evidence = joined(skipped)
        else:
            evidence = message("it judged no run that reaches the patched code")
        return ClaimReport(name, claim, None, evidence)
    agrees = bool(catches) == (claim == "caught_by")
    silent = message("silent on every probe")
    return ClaimReport(name, claim, agrees, catches[0] if catches else silent)
