"""A myth on a terminal: the claim, the program, and what it printed beside what the page says."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from harness.experiment.myth import MythReport
from harness.pages.page import Page
from harness.report.terminal import show_section

STYLES = {"-": "red", "+": "green", " ": ""}


def show_claim(console: Console, page: Page) -> None:
    """Print the title and the claim of a myth."""
    console.print(Text.assemble((page.title, "bold"), f"\n{page.id}, a myth\n"))
    _show_stated(console, "The claim", page.section("The claim"))


def show_myth(console: Console, report: MythReport) -> None:
    """Print what follows the claim."""
    console.print(Text("The program", "bold"))
    if console.is_terminal:
        code = Syntax(report.program.rstrip(), "python", theme="ansi_dark")
        console.print(Padding(code, (0, 0, 1, 2)))
    else:
        _show_rows(console, report.program.splitlines())
    _show_printed(console, report)
    _show_stated(console, "What happens", report.explanation)
    _show_stated(console, "When it would be true", report.when_true)
    _show_stated(console, "Lesson", report.lesson)


def _show_printed(console: Console, report: MythReport) -> None:
    stated = (report.says or "").rstrip("\n").splitlines()
    if report.skipped:
        console.print(Text(f"Not run: {report.skipped}", "yellow"))
        console.print(Text("What it prints, according to the page", "bold"))
        _show_rows(console, stated)
    elif report.agrees:
        heading = Text.assemble(("What it printed", "bold"), (", as the page says", "green"))
        console.print(heading, Text(f"{report.seconds:.2f} s", "dim"))
        _show_rows(console, stated)
    else:
        console.print(Text("Not as the page says: - the page, + what it printed", "bold red"))
        for row in report.differences:
            console.print(Text(f"  {row}", STYLES[row[0]]), soft_wrap=True)
        console.print()
        if report.failure:
            console.print(Text(f"It failed: {report.failure}\n", "bold red"))


def _show_rows(console: Console, rows: list[str]) -> None:
    for row in rows:
        console.print(Text(f"  {row}"), soft_wrap=True)
    console.print()


def _show_stated(console: Console, heading: str, markdown: str) -> None:
    if markdown:
        show_section(console, heading, markdown)
