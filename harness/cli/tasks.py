"""Code that a learner writes: a test or a probe for an exercise, and the repair of a break.

`harness exercise` shows a task, judges a file, or helps with it; `harness fix` makes a scratch copy
with a break in it, and judges what became of the copy; `harness watch` runs these and others
whenever a file is saved.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    Breaks,
    EngineName,
    Json,
    Lang,
    NoCache,
    PageId,
    complete_id,
    require_one,
)
from harness.cli.session import CommandSession, print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.report.language import VARIABLES
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.engines.engine import Engine
    from harness.experiment.baseline import Context
    from harness.learn.scratch_copy import CopyOrigin, ScratchCopy
    from harness.learn.watch import Command
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
    session = CommandSession(breaks, engine, lang=lang, json=json, cached=not no_cache)
    task = session.page(page, "exercise")
    if start:
        return _write_start(session, task, start)
    if hint:
        return _show_hint(session, task)
    if answer:
        return _show_answer(session, task)
    return _judge(session, task, probe, hints)


def _judge(session: CommandSession, task: Page, file: Path | None, hints: bool) -> int:
    """Show the suite and the task, or judge the file."""
    with session.busy():
        from harness.check.runner import run_page
        from harness.grade.exercise import ExerciseReport, is_suite_file
        from harness.grade.probes import read_submission

    suite = file if file is not None and is_suite_file(file) else None
    probes = read_submission(file) if file and not suite else ()
    shown = session.translated(task)
    if not session.json:
        from harness.report.pages import show_opening

        show_opening(session.console, shown, task, "" if file else "The suite")
    report = session.run(lambda: run_page(task, session, probes=probes, suite_file=suite))
    assert isinstance(report, ExerciseReport)
    session.show(report, page=shown, original=task, probes=probes, hints=hints)
    if file and not session.json:
        _record(session, task, bool(report.killed))
    if report.killed:
        session.show_next(task)
    return 0 if (report.agrees if report.killed is None else report.killed) else 1


# ----- Help with an exercise -----


def _write_start(session: CommandSession, task: Page, path: Path) -> int:
    from harness.learn.lesson import write_start

    _, text = session.translated(task).section_like("Your task", task)
    write_start(task, text, path)
    session.console.print(session.console.say("{path} is written. Edit it, then run:", path=path))
    session.console.print(f"  harness exercise {task.id} {path}", soft_wrap=True)
    return 0


def _record(session: CommandSession, task: Page, killed: bool) -> None:
    """Record the attempt; from the second failure on, say what help there is."""
    from harness.learn.events import Attempt
    from harness.learn.lesson import FAILURES, STEPS

    session.journal.record(Attempt(exercise=task.id, killed=killed))
    progress, console = session.progress, session.console
    if killed or task.id in progress.done or progress.failures(task.id) < FAILURES:
        return
    step = progress.hints(task.id) + 1
    if step <= STEPS:
        line = console.say("Hint {step} of {steps}, free:", step=step, steps=STEPS)
        console.print(f"{line}  harness exercise {task.id} --hint", soft_wrap=True)
    else:
        line = console.say("The answer:")
        console.print(f"{line}  harness exercise {task.id} --answer", soft_wrap=True)


def _show_hint(session: CommandSession, task: Page) -> int:
    """Show the next hint, or all of them again once all have been shown."""
    from harness.learn.events import Hint
    from harness.learn.lesson import hints_of
    from harness.report.pages import show_section

    _, text = session.translated(task).section_like("Hints", task)
    say, hints = session.console.say, hints_of(task, text)
    step = session.progress.hints(task.id) + 1
    for number in [step] if step <= len(hints) else range(1, len(hints) + 1):
        heading = say("Hint {step} of {steps}", step=number, steps=len(hints))
        show_section(session.console, heading, say(hints[number - 1]))
    if step <= len(hints):
        session.journal.record(Hint(exercise=task.id, step=step))
    return 0


def _show_answer(session: CommandSession, task: Page) -> int:
    from harness.report.pages import show_section_like

    for heading in ("Answer", "Lesson"):
        show_section_like(session.console, heading, session.translated(task), task)
    return 0


# ----- `harness fix` -----


def fix(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The id of a break; without it, the copy in this folder is checked.",
            autocompletion=complete_id,
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the copy.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Start over; the old copy is kept beside the new one.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="FOLDER", help="The folder of the copy; by default fix-ID."),
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    lang: Lang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Repair a break in a copy of the engine, in your own editor."""
    require_one({"--check": check, "--again": again})
    choices = _FixOptions(page, folder, engine, breaks, lang, json, not no_cache)
    if page is not None and not check:
        return _make_copy(choices, page, again=again)
    if again:
        raise UsageError("--again needs the id of a break", "`harness fix ID --again`")
    if engine is not None:
        problem = message("{option} is only for a new copy", option="--engine")
        raise UsageError(problem, message("leave {option} out", option="--engine"))
    return _check_copy(choices)


@dataclass(frozen=True)
class _FixOptions:
    """What was typed."""

    page: str | None
    folder: Path | None
    engine: str | None
    breaks: list[Path] | None
    lang: str | None
    json: bool
    cached: bool

    def session(self, engine: str | None, breaks: list[Path] | None) -> CommandSession:
        return CommandSession(breaks, engine, lang=self.lang, json=self.json, cached=self.cached)

    @property
    def place(self) -> Path:
        """The folder of the copy."""
        return self.folder or Path(f"fix-{self.page}")

    @property
    def check_command(self) -> str:
        """What to type to check the copy."""
        from harness.learn.scratch_copy import nearest_copy

        near = nearest_copy(Path.cwd())
        if near and self.folder in (None, near):
            return "harness fix"
        usual = Path(f"fix-{self.page}")
        where = "" if self.place == usual else f" --dir {shlex.quote(str(self.folder))}"
        return f"harness fix {self.page} --check{where}"

    def origin(self, clean: Engine) -> CopyOrigin:
        """Return what a copy of this engine is made from."""
        from harness.engines import nearest_settings
        from harness.learn.scratch_copy import CopyOrigin, digest_of

        name = self.engine if self.engine is not None else nearest_settings(Path())
        return CopyOrigin(
            page=self.page or "",
            engine="" if name is None else str(name),
            base=str(Path.cwd()),
            breaks=tuple(str(path.resolve()) for path in self.breaks or ()),
            digest=digest_of(clean),
        )


# ----- A new copy -----


def _make_copy(choices: _FixOptions, page_id: str, *, again: bool) -> int:
    from harness.learn.repair import repair_task
    from harness.learn.scratch_copy import ScratchCopy, require_place

    session, folder = choices.session(choices.engine, choices.breaks), choices.place
    page = session.page(page_id)
    session.show_mistakes()
    require_place(folder, page.id, again=again)
    _show_title(session, page)
    broken = session.run(lambda: repair_task(page, session))
    copy = ScratchCopy(folder, choices.origin(broken.experiment.clean))
    aside = copy.write(broken.experiment.broken.sources, again=again)
    if session.json:
        print_json(broken.in_folder(folder))
        return 0
    from harness.report.tasks import show_new_copy

    if aside:
        session.console.print(session.console.say("The old copy is now {path}.", path=aside))
    show_new_copy(session.console, folder, broken, choices.check_command)
    return 0


def _show_title(session: CommandSession, page: Page) -> None:
    """Print at once what a learner knows about the break; the console knows the page from then on.

    Nothing is printed for JSON.
    """
    from harness.report.pages import show_title

    shown = session.translated(page)
    if not session.json:
        show_title(session.console, shown, session.place(page))
        session.console.print()


# ----- Checking -----


def _check_copy(choices: _FixOptions) -> int:
    from harness.learn.repair import judge_copy

    copy = _copy_of(choices)
    origin = copy.origin
    session = choices.session(origin.engine or None, list(map(Path, origin.breaks)))
    page = session.page(origin.page)
    session.show_mistakes()
    _show_title(session, page)
    repair = session.run(lambda: judge_copy(copy, page, _context(session, origin)))
    if not (repair.state == "unrepaired" or repair.engine.foreign):
        from harness.learn.events import Fix

        session.journal.record(Fix(page=page.id, right=repair.state == "right"))
    if session.json:
        print_json(repair)
    else:
        from harness.report.tasks import show_repair

        show_repair(session.console, repair, replace(choices, page=page.id).check_command)
        if repair.state == "right" and session.following(page):
            session.console.print()
            session.show_next(page)
    return int(repair.state != "right")


def _copy_of(choices: _FixOptions) -> ScratchCopy:
    """Return the copy that is meant: in the folder that is named, in this one, or in fix-ID.

    Raises UsageError if there is none, and for an id that no page has.
    """
    from harness.learn.scratch_copy import INFO, MAKE_ONE, nearest_copy, open_copy

    if choices.folder is None and (near := nearest_copy(Path.cwd())):
        copy = open_copy(Path(os.path.relpath(near)))
        if choices.page in (None, copy.origin.page):
            return copy
    if choices.page is None and choices.folder is None:
        raise UsageError("there is no scratch copy in this folder", MAKE_ONE)
    if choices.page is not None and not os.path.lexists(choices.place / INFO):
        choices.session(None, choices.breaks).page(choices.page)
    copy = open_copy(choices.place)
    if choices.page not in (None, copy.origin.page):
        problem = message(
            "{folder} is a copy of `{page}`", folder=copy.folder, page=copy.origin.page
        )
        remedy = message(
            "`harness fix {page} --check --dir {folder}`",
            page=copy.origin.page,
            folder=copy.folder,
        )
        raise UsageError(problem, remedy)
    return copy


def _context(session: CommandSession, origin: CopyOrigin) -> Context:
    """Return the context in which the copy was made; its engine may be named from a folder."""
    if not origin.engine:
        from harness.engines.engine import find_engine
        from harness.experiment.baseline import OpenContext

        return OpenContext(session.catalogue, find_engine(), session.baseline)
    with ExitStack() as stack:
        try:
            stack.enter_context(chdir(origin.base))
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            problem = message(
                "the folder {folder}, in which the copy was made, cannot be entered: {reason}",
                folder=origin.base,
                reason=getattr(error, "strerror", None) or error,
            )
            raise UsageError(problem, "start over with --again") from None
        session.engine  # noqa: B018  found here, once
    return session


# ----- `harness watch` -----


def watch(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Folders, files, or an engine such as `tensor.py:Tensor`; by default this folder.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after the first run, with its exit status.")
    ] = False,
    lang: Lang = None,
) -> int:
    """Check a page, an exercise, a copy or an engine whenever you save it; Ctrl-C stops."""
    from rich.text import Text  # slow to import

    from harness.learn.watch import (
        changed,
        commands,
        first_commands,
        snapshot,
        wait_for_change,
        watched,
    )

    console = CommandSession(lang=lang).console
    say, places = console.say, [watched(path) for path in paths or ["."]]

    def run(found: Sequence[Command]) -> list[int]:
        statuses = []
        for command in found:
            arguments = list(command.arguments)
            console.print()
            console.rule(Text(_now() + "  harness " + " ".join(arguments)), align="left")
            start = time.monotonic()
            statuses.append(run_child(arguments, lang))
            seconds = f"{time.monotonic() - start:.1f}"
            result = say("passed ({seconds} s)", seconds=seconds)
            if statuses[-1]:
                status = statuses[-1]
                result = say("exit status {status} ({seconds} s)", status=status, seconds=seconds)
            console.rule(Text(f"{_now()}  {result}"), align="left")
        return statuses

    def show_idle(files: Sequence[Path]) -> None:
        names = ", ".join(map(str, files))
        console.print(say("{files}: nothing to run", files=names), soft_wrap=True)

    files = snapshot(places)
    console.print(say("Files watched: {count}. Ctrl-C stops.", count=len(files)))
    first, idle = first_commands(places)
    if idle:
        show_idle(idle)
        console.print(say(_FORMS))
    statuses = run(first)
    if once and (statuses or idle):
        return max([*statuses, int(bool(idle))])
    while True:
        now = wait_for_change(places, files)
        saved, files = changed(files, now), now
        found = commands(saved, places)
        if not found:
            show_idle(saved)
            continue
        statuses = run(found)
        if once:
            return max(statuses)


_FORMS = (
    "A page begins with a line `+++`, and a test or probe for an exercise has a line "
    "`# harness exercise ID FILE`."
)


def run_child(arguments: Sequence[str], lang: str | None = None) -> int:
    """Run a command in a process of its own, and return its exit status, 128 + n for a signal.

    The language is passed in an environment variable, since not every command has `--lang`.

    It does not get the terminal's Ctrl-C: this process ends it, so that only one of both says so.
    """
    import subprocess  # slow to import

    sys.stdout.flush()
    path = os.pathsep.join(entry or os.curdir for entry in sys.path)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path} | ({VARIABLES[0]: lang} if lang else {}),
        start_new_session=True,
    )
    try:
        status = child.wait()
    except Terminated as request:
        child.terminate()
        # Before it is ready, it ends without a word.
        request.reported = child.wait() > 0
        raise
    return status if status >= 0 else 128 - status


def _now() -> str:
    return time.strftime("%H:%M:%S")
