"""The track: `harness start` goes on page by page, and `harness progress` shows what is done.

Page 0, about the engine itself, comes first. A self-test asks eight questions before the track, and
eight others after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.cli.options import Breaks, Json, Lang, require_one
from harness.cli.session import Background, CommandSession, complain, print_json, walking
from harness.core.errors import BreaklabError, UsageError
from harness.core.message import message
from harness.core.vocabulary import PageKind
from harness.learn.events import SelfTestPhase, TestAnswer, read_export, write_export
from harness.learn.hunt import hunts_in
from harness.learn.progress import (
    PRIMER,
    PRIMER_QUESTIONS,
    Way,
    next_steps,
    questions_left,
)
from harness.report.progress import score_text, show_next_steps, show_progress, show_welcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.core.report import QuestionReport
    from harness.experiment.baseline import Context
    from harness.learn.self_test import SelfTestQuestion


def start(
    page: Annotated[
        int | None,
        typer.Argument(
            metavar="[N]",
            help="The number of the track's page to begin with; 0 is about the engine itself.",
        ),
    ] = None,
    breaks: Breaks = None,
    lang: Lang = None,
) -> int:
    """Start the track for beginners, or continue where you left off."""
    session = CommandSession(breaks, lang=lang)
    way = _way(session)
    if page is not None and not 0 <= page <= len(way.track):
        problem = message("the track has no page {number}", number=page)
        raise UsageError(problem, message("its pages are 0 to {last}", last=len(way.track)))
    if not session.is_interactive:
        return _show_piped(session, way, page)
    if page == 0 or (page is None and way.begins_with_primer):
        from harness.cli.primer import read_primer

        if read_primer(session, again=page == 0) == "stopped":
            return 0
    if not way.has_begun:
        offer_self_test(session, "before")
    if not _walk(session, way.track[page - 1] if page else None):
        return 0
    if _way(session).is_read:
        _end(session)
    show_next_steps(session.console, next_steps(_way(session)))
    return 0


def _show_piped(session: CommandSession, way: Way, page: int | None) -> int:
    """Print a page without asking anything; without a number, only what comes next."""
    if page == 0:
        from harness.cli.primer import show_primer

        show_primer(session)
    elif page:
        _run(session, way.track[page - 1])
    else:
        show_next_steps(session.console, next_steps(way))
    return 0


def show_welcome_page() -> int:
    """Print six lines, for `harness` without a command."""
    session = CommandSession(lang=None)
    show_welcome(session.console, _way(session))
    return 0


def _way(session: CommandSession) -> Way:
    return Way(session.catalogue, session.progress)


def _walk(session: CommandSession, first: str | None) -> bool:
    """Run a page and the pages after it that are not done; by default, all that are not done.

    Returns False if the learner stops before the last one.
    """
    page = first or next(_way(session).after(None), None)
    while page is not None:
        _run(session, page)
        page = next(_way(session).after(page), None)
        if page is not None and not _goes_on(session, page):
            return False
    return True


def _run(session: CommandSession, page_id: str) -> None:
    """Run a page as its own command does; an error in it does not end the track."""
    console, say, way = session.console, session.console.say, _way(session)
    heading = say("Page {number} of {total}", number=way.number(page_id), total=len(way.track))
    console.rule(Text(heading, "bold"), align="left")
    token = walking.set(True)
    try:
        _command(session.page(page_id).front.kind)(
            page_id, breaks=list(session.breaks or ()) or None, lang=session.lang
        )
    except BreaklabError as error:
        complain(error, session.language)
    except typer.Exit:
        pass
    finally:
        walking.reset(token)
    idea = session.catalogue.track[page_id]
    console.print(Text.assemble(("\n" + say("The idea of this page"), "bold"), f"  {say(idea)}"))


def _command(kind: PageKind) -> Callable[..., int]:
    """Return the command for a page of this kind."""
    from harness.cli.break_ import break_engine
    from harness.cli.show import myth
    from harness.cli.tasks import exercise

    commands: dict[str, Callable[..., int]]
    commands = {"break": break_engine, "myth": myth, "exercise": exercise}
    return commands[kind]


def _goes_on(session: CommandSession, page_id: str) -> bool:
    """Ask whether to go on with a page; the end of the input means no."""
    console, say, way = session.console, session.console.say, _way(session)
    number, total = way.number(page_id), len(way.track)
    prompt = say(
        "Enter: page {number} of {total}, {page} · q: stop  > ",
        number=number,
        total=total,
        page=page_id,
    )
    typed = "?"
    while typed not in ("", "q"):
        try:
            typed = console.input(Text(f"\n{prompt}")).strip().lower()
        except EOFError:
            console.print()
            typed = "q"
        if typed not in ("", "q"):
            console.print(say("Press Enter to continue, or type q to stop."))
    if typed == "q":
        console.print(say("`harness start` continues with page {number}.", number=number))
    return not typed


def _end(session: CommandSession) -> None:
    """Say that the track is done, and ask the questions after it."""
    console, way = session.console, _way(session)
    line = console.say("You have done the whole track.")
    if way.next_id:
        left = ", ".join(way.after(None))
        line = console.say("You have read the whole track; still to solve: {pages}", pages=left)
    console.print(Text(f"\n{line}\n", "bold"))
    if questions_left(way):
        offer_self_test(session, "after")


# ----- The self-test; the modules that it needs besides are slow to import -----


def offer_self_test(session: CommandSession, phase: SelfTestPhase) -> None:
    """Ask the questions of a phase that are still open, unless the learner skips them.

    Those that are skipped are not asked again. After an interruption, the next call continues with
    the question at which it happened.
    """
    console, say = session.console, session.console.say
    if session.progress.draw is None:
        from harness.learn.self_test import draw

        session.journal.record(draw(session.catalogue))
    open_pages = session.progress.unanswered(phase)
    if not open_pages:
        return
    console.print(Text(say("Self-test"), "bold"))
    console.print(say(_BEFORE if phase == "before" else _AFTER))
    if not _begins(session):
        _skip(session, phase)
        return
    keys = say(
        "Enter skips a question, ? shows the code of its probe, `skip` skips the rest. After "
        "Ctrl-D, `harness start` continues here."
    )
    console.print(f"{keys}\n")
    context = _minigrad(session)
    for page in open_pages:
        if not _ask(session, phase, page, context):
            _skip(session, phase)
            break
    _show_result(session, phase)


_BEFORE = (
    "A few questions before the track, and others of the same kinds after it, show what has "
    "changed. You need not know the answers yet."
)
_AFTER = "The questions after the track: other pages, the same kinds as before."


def _begins(session: CommandSession) -> bool:
    from harness.cli.prediction import read_answer

    console, say = session.console, session.console.say

    def check(typed: str) -> None:
        if typed.lower() not in ("s", *SKIP):
            raise ValueError(say("Press Enter to begin, or type s to skip the questions."))

    try:
        return not read_answer(
            console, check, prompt=say("Enter: begin · s: skip the questions  > ")
        )
    except EOFError:
        console.print()
        return False


def _skip(session: CommandSession, phase: SelfTestPhase) -> None:
    pages = session.progress.unanswered(phase)
    answers = (TestAnswer(phase=phase, page=page, right=None) for page in pages)
    session.journal.record(*answers)


def _minigrad(session: CommandSession) -> Context:
    """Return the context of the questions, which are about minigrad whatever harness.toml says."""
    from harness.engines.engine import find_engine
    from harness.experiment.baseline import OpenContext

    return OpenContext(session.catalogue, find_engine(), session.baseline)


def _ask(session: CommandSession, phase: SelfTestPhase, page: str, context: Context) -> bool:
    """Ask a question, and record the answer; return False if the learner skips the rest."""
    from harness.learn.self_test import read_question

    item = read_question(session.catalogue, page)
    if item is None:  # the catalogue has changed since the questions were drawn
        session.journal.record(TestAnswer(phase=phase, page=page, right=None))
        return True
    running = Background(lambda _: item.answer(context))
    _show_question(session, phase, item, context)
    typed = _read_answer(session, item)
    if typed is None:
        return False
    try:
        question = session.wait(running)
    except BreaklabError as error:
        complain(error, session.language)
        right = None
    else:
        right = _judge(session, typed, question)
    session.journal.record(TestAnswer(phase=phase, page=page, right=right))
    return True


def _show_question(
    session: CommandSession, phase: SelfTestPhase, item: SelfTestQuestion, context: Context
) -> None:
    from harness.cli.prediction import numbered
    from harness.experiment.patching import prepare
    from harness.report.one_screen import show_surroundings

    title = session.translated(item.page).title
    console, say = session.console, session.console.say
    total = session.progress.score(phase)
    place = say("Question {number} of {total}", number=total.asked + 1, total=total.questions)
    console.print(Text.assemble((place, "bold"), f"  {title}"))
    with session.busy():
        change = prepare(item.page, session.catalogue, context.engine)
    show_surroundings(console, change)
    console.print(Text(f"{item.probe.name}: {say(item.question.question)}"))
    for choice in numbered(item.question.choices, say):
        console.print(Text(f"  {choice}"))


def _read_answer(session: CommandSession, item: SelfTestQuestion) -> str | None:
    """Return what is typed, empty to skip the question; None if the rest is skipped.

    Raises typer.Exit if the input has ended.
    """
    from harness.cli.prediction import check_answer, read_answer, show_probe

    console, say = session.console, session.console.say

    def check(typed: str) -> None:
        if typed.lower() not in SKIP:
            check_answer(typed, item.question, say)

    try:
        typed = read_answer(console, check, lambda: show_probe(console, item.probe))
    except EOFError:
        console.print(f"\n{say('`harness start` continues with this question.')}")
        raise typer.Exit(0) from None
    return None if typed.lower() in SKIP else typed


SKIP = ("skip",)
"""What to type to skip all the questions that are left."""


def _judge(session: CommandSession, typed: str, question: QuestionReport) -> bool | None:
    """Print the observed answer, and return whether the typed one is right.

    None if the question was skipped, or has no answer.
    """
    from harness.cli.prediction import is_right

    console, say = session.console, session.console.say
    if question.answer is None:
        return None
    right = is_right(typed, question, say) if typed else None
    mark = {True: say("right"), False: say("wrong"), None: say("skipped")}[right]
    style = {True: "green", False: "red", None: ""}[right]
    answer = (say(question.answer), "bold")
    console.print(Text.assemble((mark, style), "  ", answer, f"  {say(question.because)}\n"))
    return right


def _show_result(session: CommandSession, phase: SelfTestPhase) -> None:
    console, progress = session.console, session.progress
    say, score = console.say, progress.score(phase)
    if phase == "before":
        line = say("Before the track: {score}.", score=score_text(score, say))
    else:
        line = say(
            "After the track: {score}; before it: {before}.",
            score=score_text(score, say),
            before=score_text(progress.score("before"), say),
        )
    console.print(Text(f"{line}\n", "bold"))


# ----- `harness progress` -----


def progress(
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete all progress; asks first unless --yes is given.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the progress to a new JSON file."),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Add the progress in an exported file."),
    ] = None,
    breaks: Breaks = None,
    lang: Lang = None,
    json: Json = False,
) -> int:
    """Show what you have done, how good your predictions were, and what comes next."""
    require_one({"--reset": reset, "--export": export, "--import": import_})
    session = CommandSession(breaks, lang=lang, json=json)
    if reset:
        return _reset(session, yes)
    if export:
        return _export(session, export)
    if import_:
        return _import(session, import_)
    return _show_progress(session)


def _show_progress(session: CommandSession) -> int:
    way = _way(session)
    if session.json:
        print_json(_progress_entry(way))
    else:
        show_progress(session.console, way)
    return 0


def _progress_entry(way: Way) -> dict[str, object]:
    progress = way.progress
    ended = [hunt for hunt in hunts_in(progress.events) if hunt.answer]
    return {
        "schema": 1,
        "track": {"done": way.done, "pages": len(way.track), "next": way.next_id},
        "page_0": {
            "done": PRIMER in progress.done,
            "answered": len(progress.primer),
            "questions": len(PRIMER_QUESTIONS),
        },
        "done": sorted(progress.done),
        "repaired": sorted(progress.repaired),
        "predictions": {"count": len(progress.predictions), "right": progress.right},
        "calibration": progress.calibration,
        "self_test": {"before": progress.score("before"), "after": progress.score("after")},
        "hunts": {
            "ended": len(ended),
            "solved": sum(hunt.is_solved for hunt in ended),
            "scores": [hunt.score for hunt in ended],
        },
        "next": [step.command for step in next_steps(way)],
    }


def _reset(session: CommandSession, yes: bool) -> int:
    """Remove all events. Raises UsageError without a terminal to ask on, and NotUsable."""
    say, database = session.console.say, session.journal.database
    if not yes:
        if not session.is_interactive:
            raise UsageError("--reset asks first, but this is not a terminal", "add --yes")
        question = say("Delete all your progress? Type yes: ")
        try:
            answer = session.console.input(question).strip().lower()
        except EOFError:
            session.console.print()
            answer = ""
        if answer not in ("yes", say("yes")):
            session.console.print(say("Nothing was changed."))
            return 0
    database.clear()
    session.console.print(say("Your progress is empty."))
    return 0


def _export(session: CommandSession, path: Path) -> int:
    """Write the events to a file. Raises UsageError if it exists, and NotUsable."""
    events = tuple(session.journal.database.read())
    write_export(events, path)
    say = session.console.say
    session.console.print(say("{count} events written to {path}", count=len(events), path=path))
    return 0


def _import(session: CommandSession, path: Path) -> int:
    """Add the events in a file. Raises PageError if it is not an export, and NotUsable."""
    events = read_export(path)
    new, say = session.journal.database.add(events), session.console.say
    line = say("{new} events added; {old} were already there", new=new, old=len(events) - new)
    session.console.print(line)
    return 0
