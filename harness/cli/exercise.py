"""`harness exercise ID [FILE]`: show an exercise, judge a submission, or help with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, NoCache, PageId, require_one
from harness.cli.session import Session

if TYPE_CHECKING:
    from harness.pages.page import Page


def exercise(
    page: PageId,
    probe: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="A Python file with your tests or your probe, to be judged."
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--start", metavar="FILE", help="Write a file to start from."),
    ] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the next hint of three.")] = False,
    hints: Annotated[bool, typer.Option("--hints", help="Show the hints.")] = False,
    answer: Annotated[bool, typer.Option("--answer", help="Show the answer.")] = False,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Read a test suite that misses a break, and write a test or a probe that catches it."""
    require_one({"FILE": probe, "--start": start, "--hint": hint, "--answer": answer})
    session = Session(breaks, engine, lang=lang, json=json, cached=not no_cache, explain=True)
    task = session.page(page, "exercise")
    if start:
        return _start(session, task, start)
    if hint:
        return _show_hint(session, task)
    if answer:
        return _show_answer(session, task)
    return _judge(session, task, probe, hints)


def _judge(session: Session, task: Page, file: Path | None, hints: bool) -> int:
    """Show the suite and the task, or judge the file."""
    with session.busy():
        from harness.check.runner import run_page
        from harness.grade.exercise import ExerciseReport, is_suite_file
        from harness.grade.probes import read_submission

    suite = file if file is not None and is_suite_file(file) else None
    probes = read_submission(file) if file and not suite else ()
    shown = session.translated(task)
    if not session.json:
        from harness.report.exercise import show_opening

        show_opening(session.console, shown, task, suite=not file)
    report = session.run(lambda: run_page(task, session, probes=probes, suite_file=suite))
    assert isinstance(report, ExerciseReport)
    session.show(report, page=shown, original=task, probes=probes, hints=hints)
    if file and not session.json:
        _record(session, task, bool(report.killed))
    if report.killed:
        session.show_next(task)
    return 0 if (report.agrees if report.killed is None else report.killed) else 1


# ----- Lessons -----


def _start(session: Session, task: Page, path: Path) -> int:
    from harness.learn.lesson import write_start

    _, text = session.translated(task).section_like("Your task", task)
    write_start(task, text, path)
    session.console.print(session.console.say("{path} is written. Edit it, then run:", path=path))
    session.console.print(f"  harness exercise {task.id} {path}", soft_wrap=True)
    return 0


def _record(session: Session, task: Page, killed: bool) -> None:
    """Record the attempt; from the second failure on, say what help there is."""
    from harness.learn.events import Attempt
    from harness.learn.lesson import FAILURES, STEPS

    session.journal.record(Attempt(exercise=task.id, killed=killed))
    progress, console = session.journal.progress, session.console
    if killed or task.id in progress.done or progress.failures(task.id) < FAILURES:
        return
    step = progress.hints(task.id) + 1
    if step <= STEPS:
        line = console.say("Hint {step} of {steps}, free:", step=step, steps=STEPS)
        console.print(f"{line}  harness exercise {task.id} --hint", soft_wrap=True)
    else:
        line = console.say("The answer:")
        console.print(f"{line}  harness exercise {task.id} --answer", soft_wrap=True)


def _show_hint(session: Session, task: Page) -> int:
    """Show the next hint, or all of them again once all have been shown."""
    from harness.learn.events import Hint
    from harness.learn.lesson import hints_of
    from harness.report.terminal import show_section

    _, text = session.translated(task).section_like("Hints", task)
    say, hints = session.console.say, hints_of(task, text)
    step = session.journal.progress.hints(task.id) + 1
    for number in [step] if step <= len(hints) else range(1, len(hints) + 1):
        heading = say("Hint {step} of {steps}", step=number, steps=len(hints))
        show_section(session.console, heading, say(hints[number - 1]))
    if step <= len(hints):
        session.journal.record(Hint(exercise=task.id, step=step))
    return 0


def _show_answer(session: Session, task: Page) -> int:
    from harness.report.terminal import show_section_like

    for heading in ("Answer", "Lesson"):
        show_section_like(session.console, heading, session.translated(task), task)
    return 0
