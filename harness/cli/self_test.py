"""The self-test on a terminal: eight questions before the track, and eight others after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from harness.cli.questions import is_right
from harness.cli.session import Background, Session, complain
from harness.core.errors import BreaklabError
from harness.experiment.context import Context, OpenContext
from harness.learn.events import Draw, SelfTestPhase, TestAnswer
from harness.learn.self_test import SelfTestQuestion, draw, read_question
from harness.report.progress import score_text
from harness.report.terminal import show_diff

if TYPE_CHECKING:
    from harness.core.report import QuestionReport
    from harness.pages.probe import Probe


def offer_self_test(session: Session, phase: SelfTestPhase) -> None:
    """Ask the questions of a phase that are still open, unless the learner skips them.

    Those that are skipped are not asked again.
    """
    console, say = session.console, session.console.say
    if session.progress.draw is None:
        session.journal.record(_draw(session))
    open_pages = session.progress.unanswered(phase)
    if not open_pages:
        return
    console.print(Text(say("Self-test"), "bold"))
    console.print(say(_BEFORE if phase == "before" else _AFTER))
    if not _begins(session):
        _skip(session, phase)
        return
    keys = say("Enter skips a question, ? shows the code of its probe, Ctrl-D skips the rest.")
    console.print(f"{keys}\n")
    context = _context(session)
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


def _draw(session: Session) -> Draw:
    return draw(session.catalogue)


def _begins(session: Session) -> bool:
    console = session.console
    try:
        typed = console.input(console.say("Enter: begin · s: skip the questions  > "))
    except EOFError:
        console.print()
        return False
    return typed.strip().lower() not in ("s", "skip")


def _skip(session: Session, phase: SelfTestPhase) -> None:
    pages = session.progress.unanswered(phase)
    answers = (TestAnswer(phase=phase, page=page, right=None) for page in pages)
    session.journal.record(*answers)


def _context(session: Session) -> Context:
    """Return the context of the questions, which are about minigrad whatever harness.toml says."""
    from harness.engines.engine import find_engine

    return OpenContext(session.catalogue, find_engine(), session.baseline)


def _ask(session: Session, phase: SelfTestPhase, page: str, context: Context) -> bool:
    """Ask a question, and record the answer; return False if the input has ended."""
    item = read_question(session.catalogue, page)
    if item is None:  # the catalogue has changed since the questions were drawn
        session.journal.record(TestAnswer(phase=phase, page=page, right=None))
        return True
    running = Background(lambda _: item.answer(context))
    _show_question(session, phase, item)
    typed = _read_answer(session, item.probe)
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


def _show_question(session: Session, phase: SelfTestPhase, item: SelfTestQuestion) -> None:
    title = session.translated(item.page).title
    console, say = session.console, session.console.say
    total = session.progress.score(phase)
    place = say("Question {number} of {total}", number=total.asked + 1, total=total.questions)
    console.print(Text.assemble((place, "bold"), f"  {title}"))
    texts = [change.text.rstrip() for change in item.page.diffs("minigrad")]
    show_diff(console, "\n".join(texts), ())
    console.print(Text(f"\n{item.probe.name}: {say(item.question.question)}"))
    numbered = not any(choice.lstrip("-").isdecimal() for choice in item.question.choices)
    for number, choice in enumerate(item.question.choices, start=1):
        console.print(Text(f"  {number}  {say(choice)}" if numbered else f"  {say(choice)}"))


def _read_answer(session: Session, probe: Probe) -> str | None:
    """Return what is typed, empty to skip the question; None if the input has ended."""
    console = session.console
    while True:
        try:
            typed: str = console.input("  > ").strip()
        except EOFError:
            console.print()
            return None
        if typed != "?":
            return typed
        console.print(Text(probe.code), soft_wrap=True)


def _judge(session: Session, typed: str, question: QuestionReport) -> bool | None:
    """Print the observed answer, and return whether the typed one is right.

    None if the question was skipped, or has no answer.
    """
    console, say = session.console, session.console.say
    if question.answer is None:
        return None
    right = is_right(typed, question, say) if typed else None
    mark = {True: say("right"), False: say("wrong"), None: say("skipped")}[right]
    style = {True: "green", False: "red", None: ""}[right]
    answer = (say(question.answer), "bold")
    console.print(Text.assemble((mark, style), "  ", answer, f"  {say(question.because)}\n"))
    return right


def _show_result(session: Session, phase: SelfTestPhase) -> None:
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
