"""An exercise on a terminal: the suite and its results, or the verdict on a learner's file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.grade.blind import TEST_FAILED
from harness.grade.exercise import ExerciseReport, passes
from harness.grade.submission import RECOGNISES, Attack
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.terminal import Screen, show_runs, show_section


def show_opening(console: Console, page: Page, *, suite: bool) -> None:
    """Print the title of an exercise and, if wanted, its suite."""
    console.print(Text.assemble((page.title, "bold"), f"\n{page.id}, an exercise\n"))
    if suite:
        _show_section(console, page, "The suite")


def show_exercise(
    console: Screen,
    report: ExerciseReport,
    *,
    page: Page,
    probes: Sequence[Probe] = (),
    hints: bool = False,
) -> None:
    """Print the suite's results and the task, without the answer; or what a learner's probes did.

    `show_opening` has printed the opening before.
    """
    if probes:
        _show_submission(console, page, report, probes)
    else:
        _show_task(console, page, report, hints)


def _show_task(console: Screen, page: Page, report: ExerciseReport, hints: bool) -> None:
    _show_suite(console, report)
    _show_section(console, page, "The break")
    _show_section(console, page, "Your task")
    if hints:
        _show_section(console, page, "Hints")
    console.print("Write your probe, or tests as in the suite, into a file, then run:")
    console.print(f"  harness exercise {report.exercise} mine.py", style="bold")
    console.print(f"  harness exercise {report.exercise} --hints", style="dim")
    console.print(f"  harness show {report.exercise} --answer", style="dim")
    if not report.agrees:
        console.print(Text("\nThe results of the suite are not as the page says.", "bold red"))


def _show_section(console: Console, page: Page, heading: str) -> None:
    if text := page.section(heading):
        show_section(console, heading, text)


def _show_suite(console: Screen, report: ExerciseReport) -> None:
    """Print the result of each test on each engine."""
    clean = [test.failure for test in report.suite if test.failure]
    console.print(_verdict("On the unbroken engine", not clean))
    for failure in clean:
        console.print(Text(f"    {failure}", "red"))
    for name in report.breaks:
        console.print(_verdict(f"With {name}", passes(report.suite, name)))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, style="dim")
        for test in report.suite:
            table.add_row(test.test, test.on[name].why)
        console.print(Padding(table, (0, 0, 0, 4)))
    for name in report.kills:
        tests = [test.test for test in report.suite if not test.on[name].passes]
        console.print(_verdict(f"With {name}", not tests), Text(", ".join(tests), "dim"))
    console.print()


def _verdict(where: str, good: bool) -> Text:
    verdict = ("the suite passes", "green") if good else ("the suite FAILS", "red")
    return Text.assemble(f"  {where}: ", verdict)


def _show_submission(
    console: Screen, page: Page, report: ExerciseReport, probes: Sequence[Probe]
) -> None:
    """Print what a learner's file did, why it does not kill, and the lesson once it does."""
    kind = "test" if probes[0].kind == "test" else "probe"
    unsound = [result for result in report.probes if result.problems]
    for result in unsound:
        console.print(Text(f"{result.probe} is not a sound {kind}", "bold red"))
        for problem in result.problems:
            console.print(Padding(Text(problem), (0, 0, 0, 2)))
    if unsound:
        console.print(
            f"\nA {kind} must pass on the unbroken engine before it can judge a broken one."
        )
        return
    for attack in report.attacks:
        console.print(Text(f"Against {attack.break_}\n", "bold underline"))
        if attack.runs:
            show_runs(console, attack.runs, probes)
        _show_attack(console, attack)
    console.print(f"{report.score} of {len(report.breaks)} killed", style="bold")
    if report.killed:
        console.print()
        _show_section(console, page, "Lesson")
        console.print(f"harness show {report.exercise} --answer shows our answer", style="dim")


def _show_attack(console: Screen, attack: Attack) -> None:
    name = attack.break_
    if attack.killed_by:
        killers = attack.killed_by.items()
        listed = "; ".join(
            probe if names == [TEST_FAILED] else f"{probe} ({', '.join(names)})"
            for probe, names in killers
        )
        console.print(Text.assemble((f"{name} is killed", "bold green"), f" by {listed}"))
        for probe in attack.recognised:
            console.print(Text(f"  `{probe}` {RECOGNISES}."))
        return
    console.print(
        Text.assemble((f"{name} survives", "bold red"), f": {attack.stage}: {attack.why}")
    )
    if attack.stage == "not-reached":
        places = dict.fromkeys(f"`{site.scope}` in {site.file}" for site in attack.sites)
        console.print(f"  The changed code is in {', '.join(places)}.")
