"""A myth on a terminal: the claim, the program, and what it printed beside what the page says."""

from __future__ import annotations

from rich.text import Text

from harness.experiment.myth import MythReport
from harness.pages.page import Page
from harness.report.terminal import Screen, show_code, show_section_like

STYLES = {"-": "red", "+": "green", " ": ""}


def show_claim(console: Screen, page: Page, original: Page) -> None:
    """Print the title and the claim of a myth, in any language."""
    line = console.say("{page}, a myth", page=page.id)
    console.print(Text.assemble((page.title, "bold"), f"\n{line}\n"))
    show_section_like(console, "The claim", page, original)


def show_myth(console: Screen, report: MythReport, *, page: Page, original: Page) -> None:
    """Print what follows the claim."""
    console.print(Text(console.say("The program"), "bold"))
    show_code(console, report.program, "python", indent=2)
    _show_printed(console, report)
    for heading in ("What happens", "When it would be true", "Lesson"):
        show_section_like(console, heading, page, original)


def _show_printed(console: Screen, report: MythReport) -> None:
    say = console.say
    stated = (report.says or "").rstrip("\n").splitlines()
    if report.skipped:
        console.print(Text(say("Not run: {reason}", reason=report.skipped), "yellow"))
        console.print(Text(say("What it prints, according to the page"), "bold"))
        _show_rows(console, stated)
    elif report.agrees:
        heading = Text.assemble(
            (say("What it printed"), "bold"), (say(", as the page says"), "green")
        )
        console.print(heading)
        _show_rows(console, stated)
    else:
        line = say("Not as the page says: - the page, + what it printed")
        console.print(Text(line, "bold red"))
        for row in report.differences:
            console.print(Text(f"  {row}", STYLES[row[0]]), soft_wrap=True)
        console.print()
        if report.failure:
            failed = say("It failed: {failure}", failure=report.failure)
            console.print(Text(f"{failed}\n", "bold red"))


def _show_rows(console: Screen, rows: list[str]) -> None:
    for row in rows:
        console.print(Text(f"  {row}"), soft_wrap=True)
    console.print()
