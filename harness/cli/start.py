"""`harness start`: the track, page by page, from where you left off."""

from __future__ import annotations

import typer
from rich.text import Text

from harness.cli.options import Breaks, Lang
from harness.cli.session import Session, complain
from harness.core.errors import BreaklabError
from harness.learn.progress import Way, next_steps, questions_left
from harness.report.progress import show_next_steps, show_welcome


def start(breaks: Breaks = None, lang: Lang = None) -> int:
    """Start the track for beginners, or continue where you left off."""
    session = Session(breaks, lang=lang)
    if session.is_interactive:
        if not _way(session).done:
            _offer_self_test(session, "before")
        if not _walk(session):
            return 0
        if _way(session).is_read:
            _end(session)
    show_next_steps(session.console, next_steps(_way(session)))
    return 0


def show_welcome_page() -> int:
    """Print six lines, for `harness` without a command."""
    session = Session(lang=None)
    show_welcome(session.console, _way(session))
    return 0


def _way(session: Session) -> Way:
    return Way(session.catalogue, session.progress)


def _walk(session: Session) -> bool:
    """Run the pages that are not done; return False if the learner stops before the last one."""
    page = next(_way(session).after(None), None)
    while page is not None:
        _run(session, page)
        page = next(_way(session).after(page), None)
        if page is not None and not _goes_on(session, page):
            return False
    return True


def _run(session: Session, page_id: str) -> None:
    """Run a page as its own command does; an error in it does not end the track."""
    console, say, way = session.console, session.console.say, _way(session)
    heading = say("Page {number} of {total}", number=way.number(page_id), total=len(way.track))
    console.rule(Text(heading, "bold"), align="left")
    try:
        _COMMANDS[session.page(page_id).front.kind](session, page_id)
    except BreaklabError as error:
        complain(error, session.language)
    except typer.Exit:
        pass
    idea = session.catalogue.track[page_id]
    console.print(Text.assemble(("\n" + say("The idea of this page"), "bold"), f"  {say(idea)}"))


def _run_break(session: Session, page_id: str) -> None:
    from harness.cli.break_ import break_engine

    break_engine(page_id, breaks=_folders(session), lang=session.lang)


def _run_myth(session: Session, page_id: str) -> None:
    from harness.cli.myth import myth

    myth(page_id, breaks=_folders(session), lang=session.lang)


def _show_exercise(session: Session, page_id: str) -> None:
    from harness.cli.exercise import exercise

    exercise(page_id, breaks=_folders(session), lang=session.lang)


_COMMANDS = {"break": _run_break, "myth": _run_myth, "exercise": _show_exercise}


def _folders(session: Session) -> Breaks:
    return list(session.breaks or ()) or None


def _goes_on(session: Session, page_id: str) -> bool:
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


def _end(session: Session) -> None:
    """Say that the track is done, and ask the questions after it."""
    console, way = session.console, _way(session)
    line = console.say("You have done the whole track.")
    if way.next_id:
        left = ", ".join(way.after(None))
        line = console.say("You have read the whole track; still to solve: {pages}", pages=left)
    console.print(Text(f"\n{line}\n", "bold"))
    if questions_left(way):
        _offer_self_test(session, "after")


def _offer_self_test(session: Session, phase: str) -> None:
    from harness.cli.self_test import offer_self_test  # slow to import

    offer_self_test(session, "before" if phase == "before" else "after")
