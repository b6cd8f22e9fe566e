"""The check of pages on a terminal: a line a page that holds, all findings of one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from harness.check.pages import PageCheck
from harness.core.finding import Finding
from harness.core.report import Report
from harness.report.terminal import Screen, outcome_text


def show_check(console: Console, check: PageCheck) -> None:
    """One page."""
    holds = check.exit_status == 0
    engines = dict.fromkeys(report.engine.variant or report.engine.name for report in check.reports)
    line = Text.assemble(
        ("holds ", "green") if holds else ("FAILS ", "bold red"),
        (check.page, "bold"),
        f"  on {', '.join(engines)}" if engines else "",
        (f"  {check.seconds:.1f} s", "dim"),
    )
    console.print(line, soft_wrap=True)
    for finding in check.findings:
        _show_finding(console, finding)


def show_compared(console: Screen, report: Report) -> None:
    """What became of one break on a foreign engine, beside what its page says."""
    same, stated = report.agreement
    line = outcome_text(report.headline)
    line.append(f"  {report.break_}", "bold")
    if report.sites:
        line.append(f"  {len(report.sites)} site{'s' * (len(report.sites) != 1)}", "dim")
    if stated:
        line.append(f"  {same} of {stated} runs as the page says")
    elif report.left_out:
        line.append(f"  {next(iter(report.left_out.values()))}", "dim")
    console.print(line, soft_wrap=True)


def _show_finding(console: Console, finding: Finding) -> None:
    place = f"  {_near(finding.path)}:{finding.line}"
    console.print(
        Text(place + ("  (a warning)" if finding.exit_status == 0 else "")), soft_wrap=True
    )
    first, *more = finding.problem.splitlines()
    console.print(Padding(Text(first), (0, 0, 0, 4)))
    for row in more:  # code that came nearest, which must not be wrapped
        console.print(Text(f"    {row}"), soft_wrap=True)
    console.print(Padding(Text(f"remedy: {finding.remedy}", "cyan"), (0, 0, 0, 4)))


def _near(path: str) -> str:
    """Relative to the working directory, where the file is below it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def show_left_out(console: Console, count: int) -> None:
    """That pages which need many seeds were left out, and what runs them."""
    if count:
        words = f"{count} pages that need many seeds are left out: harness check --training"
        console.print(Text(words, "dim"))


def show_summary(console: Console, checks: Sequence[PageCheck], seconds: float) -> None:
    """How many pages hold, in the last line."""
    failed = sum(check.exit_status != 0 for check in checks)
    findings = sum(len(check.findings) for check in checks)
    pages = f"{len(checks)} page{'s' * (len(checks) != 1)}"
    verdict = f"{failed} of them do not hold" if failed else "all hold"
    if len(checks) == 1:
        verdict = "does not hold" if failed else "holds"
    listed = f", {findings} finding{'s' * (findings != 1)}" if findings else ""
    console.print(Text(f"{pages}: {verdict}{listed}", "bold red" if failed else "green"), end="")
    console.print(Text(f"  {seconds:.1f} s", "dim"))
