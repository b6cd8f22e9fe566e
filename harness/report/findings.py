"""The check of pages on a terminal: one line per page, and the findings of each page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from harness.check import Finding
from harness.check.pages import PageCheck
from harness.core.report import Report
from harness.pages.catalogue import Catalogue
from harness.report.terminal import Screen, counted, outcome_text


def show_check(console: Console, check: PageCheck) -> None:
    """Print the check of one page."""
    verdicts = {
        True: ("passed ", "green"),
        False: ("FAILED ", "bold red"),
        None: ("not checked ", "yellow"),
    }
    engines = dict.fromkeys(report.engine.variant or report.engine.name for report in check.reports)
    line = Text.assemble(
        verdicts[check.holds],
        (check.page, "bold"),
        f"  on {', '.join(engines)}" if engines else "",
        (f"  {check.seconds:.1f} s", "dim"),
    )
    console.print(line, soft_wrap=True)
    for finding in check.findings:
        _show_finding(console, finding)


def show_comparison(console: Screen, report: Report, findings: Sequence[Finding]) -> None:
    """Print a break's headline on a foreign engine, its agreement with the page, and findings."""
    same, stated = report.agreement
    line = outcome_text(report.headline)
    line.append(f"  {report.break_}", "bold")
    if report.sites:
        line.append(f"  {counted(len(report.sites), 'site')}", "dim")
    if stated:
        line.append(f"  {same} of {stated} runs as the page says")
    elif report.left_out:
        line.append(f"  {next(iter(report.left_out.values()))}", "dim")
    console.print(line, soft_wrap=True)
    if report.partial:
        console.print(Text(f"    in part: {report.partial}", "yellow"), soft_wrap=True)
    for finding in findings:
        _show_finding(console, finding)


def show_nothing_judged(console: Console, engine: str) -> None:
    """Print that none of the breaks could be judged on a foreign engine."""
    text = f"Nothing was judged: on {engine}, no probe of these pages gives the right result "
    console.print(Text(text + "and runs the changed code.", "bold red"))


def _show_finding(console: Console, finding: Finding) -> None:
    place = f"  {_near(finding.path)}:{finding.line}"
    console.print(
        Text(place + ("  (a warning)" if finding.exit_status == 0 else "")), soft_wrap=True
    )
    first, *more = finding.problem.splitlines()
    console.print(Padding(Text(first), (0, 0, 0, 4)))
    for row in more:  # the nearest code, which must not be wrapped
        console.print(Text(f"    {row}"), soft_wrap=True)
    console.print(Padding(Text(f"remedy: {finding.remedy}", "cyan"), (0, 0, 0, 4)))


def _near(path: str) -> str:
    """Return the path relative to the working directory, if the file is below it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def show_left_out(console: Console, catalogue: Catalogue, only: Sequence[Path]) -> None:
    """Print that pages which need many seeds were left out, and the command that checks them."""
    left_out = catalogue.many_seeded & (catalogue.ids_in(only) if only else catalogue.files.keys())
    if count := len(left_out):
        text = f"{count} pages that need many seeds are left out: harness check --training"
        console.print(Text(text, "dim"))


def show_summary(console: Console, checks: Sequence[PageCheck], seconds: float) -> None:
    """Print how many pages pass, in the last line."""
    failed = sum(check.holds is False for check in checks)
    unchecked = sum(check.holds is None for check in checks)
    findings = sum(len(check.findings) for check in checks)
    pages = counted(len(checks), "page")
    verdict = f"{failed} of them fail" if failed else "all pass"
    if unchecked:
        verdict = f"{failed} of them fail, and {unchecked} could not be checked"
    if len(checks) == 1:
        verdict = "fails" if failed else "could not be checked" if unchecked else "passes"
    listed = f", {counted(findings, 'finding')}" if findings else ""
    style = "bold red" if failed else "yellow" if unchecked else "green"
    console.print(Text(f"{pages}: {verdict}{listed}", style), end="")
    console.print(Text(f"  {seconds:.1f} s", "dim"))
