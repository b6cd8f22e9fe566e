"""An exercise on a terminal: the suite and its results, or the verdict on a learner's file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.grade.exercise import ExerciseReport, passes
from harness.grade.probes import TEST_FAILED, Attack, recognises
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.full import show_runs
from harness.report.language import Language
from harness.report.terminal import Screen, show_section_like


def show_opening(console: Screen, page: Page, original: Page, *, suite: bool) -> None:
    """Print the title of an exercise, in any language, and, if wanted, its suite."""
    line = console.say("{page}, an exercise", page=page.id)
    console.print(Text.assemble((page.title, "bold"), f"\n{line}\n"))
    if suite:
        show_section_like(console, "The suite", page, original)


def show_exercise(
    console: Screen,
    report: ExerciseReport,
    *,
    page: Page,
    original: Page,
    probes: Sequence[Probe] = (),
    hints: bool = False,
) -> None:
    """Print the suite's results and the task, without the answer; or what a learner's probes did.

    `show_opening` has printed the opening before.
    """
    if report.killed is not None:
        _show_submission(console, report, probes)
        if report.killed:
            _show_end(console, report, page, original)
        return
    _show_suite(console, report)
    for heading in ("The break", "Your task", *(["Hints"] if hints else [])):
        show_section_like(console, heading, page, original)
    _show_next_steps(console, report)


def _show_next_steps(console: Screen, report: ExerciseReport) -> None:
    say = console.say
    console.print(say("Start from a template, or write your probe or tests into a file; then run:"))
    console.print(f"  harness exercise {report.exercise} --start mine.py", style="bold")
    console.print(f"  harness exercise {report.exercise} mine.py", style="bold")
    console.print(f"  harness exercise {report.exercise} --hints", style="dim")
    console.print(f"  harness show {report.exercise} --answer", style="dim")
    if not report.agrees:
        line = say("The results of the suite differ from what the page says.")
        console.print(Text(f"\n{line}", "bold red"))


def _show_suite(console: Screen, report: ExerciseReport) -> None:
    """Print the result of each test on each engine."""
    say = console.say
    clean = [test.failure for test in report.suite if test.failure]
    console.print(_verdict(say("On the unbroken engine"), not clean, say))
    for failure in clean:
        console.print(Text(f"    {say(failure)}", "red"))
    for name in report.breaks:
        console.print(_verdict(say("With {name}", name=name), passes(report.suite, name), say))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, style="dim")
        for test in report.suite:
            table.add_row(test.test, say(test.on[name].why))
        console.print(Padding(table, (0, 0, 0, 4)))
    for name in report.kills:
        tests = [test.test for test in report.suite if not test.on[name].passes]
        verdict = _verdict(say("With {name}", name=name), not tests, say)
        console.print(verdict)
        if tests:
            console.print(Padding(Text(", ".join(tests)), (0, 0, 0, 4)))
    console.print()


def _verdict(where: str, good: bool, say: Language) -> Text:
    verdict = (say("the suite passes"), "green") if good else (say("the suite FAILS"), "red")
    return Text.assemble(f"  {where}: ", verdict)


def _show_submission(console: Screen, report: ExerciseReport, probes: Sequence[Probe]) -> None:
    """Print what a learner's file did, and why it does not kill."""
    say = console.say
    are_probes = bool(probes)
    unsound = [result for result in report.probes if result.problems]
    for result in unsound:
        heading = (
            say("{probe} is not a sound probe", probe=result.probe)
            if are_probes
            else say("{test} is not a sound test", test=result.probe)
        )
        console.print(Text(heading, "bold red"))
        for problem in result.problems:
            console.print(Padding(Text(say(problem)), (0, 0, 0, 2)))
    if unsound:
        rule = (
            say("A probe must pass on the unbroken engine before it can judge a broken one.")
            if are_probes
            else say("A test must pass on the unbroken engine before it can judge a broken one.")
        )
        console.print(f"\n{rule}")
        return
    for attack in report.attacks:
        heading = say("Against {name}", name=attack.break_)
        console.print(Text(f"{heading}\n", "bold underline"))
        if attack.runs:
            show_runs(console, attack.runs, probes)
        _show_attack(console, attack)
    total = say("{count} of {total} killed", count=report.score, total=len(report.breaks))
    console.print(total, style="bold")


def _show_end(console: Screen, report: ExerciseReport, page: Page, original: Page) -> None:
    """Print the lesson, and the command that shows our answer."""
    console.print()
    show_section_like(console, "Lesson", page, original)
    command = f"harness show {report.exercise} --answer"
    console.print(console.say("{command} shows our answer", command=command), style="dim")


def _show_attack(console: Screen, attack: Attack) -> None:
    name, say = attack.break_, console.say
    if attack.killed_by:
        killers = attack.killed_by.items()
        listed = "; ".join(
            probe if names == [TEST_FAILED] else f"{probe} ({', '.join(names)})"
            for probe, names in killers
        )
        killed = say("{name} is killed", name=name)
        console.print(Text.assemble((killed, "bold green"), say(" by {probes}", probes=listed)))
        for probe in attack.recognised:
            console.print(Text(f"  {say(recognises(probe))}."))
        return
    survives = say("{name} survives", name=name)
    stage = f"{say(attack.stage)}: " if attack.stage else ""
    reason = f": {stage}{say(attack.why)}"
    console.print(Text.assemble((survives, "bold red"), reason))
    if attack.stage == "not-reached":
        places = dict.fromkeys((site.scope, site.file) for site in attack.sites)
        listed = ", ".join(
            say("`{scope}` in {file}", scope=scope, file=file) for scope, file in places
        )
        console.print(f"  {say('The changed code is in {places}.', places=listed)}")
