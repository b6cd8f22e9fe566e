"""What a learner works on, on a terminal: an exercise, and a copy of the engine to repair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from harness.grade.exercise import ExerciseReport, passes
from harness.grade.probes import TEST_FAILED, Attack, recognises
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.report.full import show_runs
from harness.report.grading.reasons import why_for_learners
from harness.report.language import Language
from harness.report.pages import show_section_like
from harness.report.terminal import Screen, columns, outcome_text, show_diff
from harness.report.view import some

if TYPE_CHECKING:
    from harness.learn.repair import CopyDifference, Repair, RepairTask

# ----- An exercise: the suite and its results, or the verdict on a learner's file -----


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
            console.print()
            show_section_like(console, "Lesson", page, original)
            command = f"harness show {report.exercise} --answer"
            console.print(console.say("{command} shows our answer", command=command), style="dim")
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
    console.print(f"  harness exercise {report.exercise} --hint", style="dim")
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
        table = columns(1)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, style="dim")
        for test in report.suite:
            table.add_row(test.test, say(test.on[name].why))
        console.print(Padding(table, (0, 0, 0, 4)))
    for name in report.kills:
        tests = [test.test for test in report.suite if not test.on[name].passes]
        console.print(_verdict(say("With {name}", name=name), not tests, say))
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
    measured, why = attack.reason, attack.why
    if measured is not None and measured.kind != "not-measured":
        why = why_for_learners(measured)
    reason = f": {stage}{say(why)}"
    console.print(Text.assemble((survives, "bold red"), reason))
    if attack.stage == "not-reached":
        places = dict.fromkeys((site.scope, site.file) for site in attack.sites)
        listed = ", ".join(
            say("`{scope}` in {file}", scope=scope, file=file) for scope, file in places
        )
        console.print(f"  {say('The changed code is in {places}.', places=listed)}")


# ----- A copy to repair: what is wrong in it, which file to open, and what to type next -----

INDENT = 8
"""The number of columns of the labels."""

MOST_OTHERS = 6
"""The most further probes to name."""


def show_new_copy(console: Screen, folder: Path, damage: RepairTask, check: str) -> None:
    """Print where the copy is, one symptom, which file to open, and what to type next."""
    say, engine = console.say, damage.experiment.clean.name
    line = say("{folder} is a copy of {engine} with this bug.", folder=folder, engine=engine)
    console.print(f"{line}\n", soft_wrap=True)
    _show_difference(console, say("Wrong"), damage.symptom)
    _show_work(console, folder, damage.in_folder(folder).files, check)


def show_repair(console: Screen, repair: Repair, check: str) -> None:
    """Print the verdict on a copy, and what to do next or what was learned."""
    say = console.say
    if repair.state == "right":
        _show_right(console, repair)
        return
    if repair.state == "unrepaired":
        console.print(Text(say("Nothing is repaired yet: the copy still has the bug."), "bold red"))
    else:
        _show_wrong(console, repair)
    _show_work(console, Path(repair.folder), repair.files, check)


def _show_wrong(console: Screen, repair: Repair) -> None:
    say, first = console.say, repair.differences[0]
    probes = list(dict.fromkeys(difference.probe for difference in repair.differences))
    if first.diagnostic:
        line = say("Not right yet: all numbers agree, but a diagnostic raises an alarm.")
    else:
        line = say(
            "Not right yet: {count} of {total} probes differ from the original.",
            count=len(probes),
            total=repair.judged,
        )
    console.print(Text(f"{line}\n", "bold red"))
    _show_difference(console, say("First"), first)
    if others := probes[1:]:
        _show_row(console, say("Others"), Text(some(others, say, MOST_OTHERS)))


def _show_difference(console: Screen, label: str, difference: CopyDifference) -> None:
    """Print what a probe computes, and what came out."""
    say = console.say
    _show_row(console, label, Text(_run_of(difference, say)))
    if difference.diagnostic:
        result = Text(f"{difference.diagnostic}: {say(difference.evidence)}")
    else:
        result = outcome_text(difference.outcome, say)
        result.append(f": {say(difference.evidence)}", "not bold")
    _show_row(console, "", result)
    if difference.first_seen:
        _show_row(console, "", Text(say("first seen: {where}", where=difference.first_seen)))


def _run_of(difference: CopyDifference, say: Language) -> str:
    """Return a probe with what it computes, its shapes if they were drawn, and its loss."""
    parts = [f"{difference.probe}: {say(difference.computes)}"]
    if difference.drawn:
        shapes = ", ".join(f"{name} {shape}" for name, shape in difference.drawn.items())
        parts = [say("{probe}, with {shapes}", probe=parts[0], shapes=shapes)]
    if difference.loss:
        parts.append(say("{loss} loss", loss=say(difference.loss)))
    return ", ".join(parts)


def _show_work(console: Screen, folder: Path, files: list[str], check: str) -> None:
    """Print which files to open, and what to type next; both can be copied."""
    say = console.say
    console.print()
    for label, text in (
        *((say("Open") if file == files[0] else "", str(folder / file)) for file in files),
        (say("Then"), check),
    ):
        line = Text.assemble((f"{label:{INDENT}}", "bold"), text)
        console.print(line, soft_wrap=True)


def _show_right(console: Screen, repair: Repair) -> None:
    say = console.say
    line = say("Repaired: the code equals the original.")
    if repair.judged:
        line = say(
            "Repaired: correct on all {count} probes that run the code, without new alarms.",
            count=repair.judged,
        )
    console.print(Text(line, "bold green"))
    if repair.diff:
        console.print(f"\n{say('Changes from the original to your copy:')}\n")
        show_diff(console, repair.diff, ())
    else:
        console.print(say("Your files are identical to the original ones."))
    if repair.why:
        console.print()
        _show_row(console, say("Why"), Text(say(repair.why)))


def _show_row(console: Screen, label: str, text: Text) -> None:
    """Print a text beside its label, wrapped beside it."""
    lines = text.wrap(console, max(console.width - INDENT, 1))
    for number, line in enumerate(lines):
        line.rstrip()
        head = label if number == 0 else ""
        console.print(Text.assemble((f"{head:{INDENT}}", "bold"), line))
