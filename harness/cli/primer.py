"""Page 0 on a terminal: read a step, type its number, see why; then the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.padding import Padding
from rich.text import Text

from harness.cli.prediction import is_number, is_right, mark, one_of, read_answer
from harness.cli.session import CommandSession
from harness.core.report import QuestionReport
from harness.learn.events import PageFinished, PredictionMade
from harness.learn.primer import ENGINE
from harness.learn.progress import PRIMER
from harness.report import primer
from harness.report.pages import show_markdown
from harness.report.terminal import show_code

if TYPE_CHECKING:
    from harness.report.language import Language
    from harness.report.primer import Question, Step

Ending = Literal["read", "skipped", "stopped"]
"""How a learner leaves page 0."""

SKIP, STOP = "s", "q"
"""What can be typed instead of an answer."""


def show_primer(session: CommandSession) -> None:
    """Print page 0 with its answers, for a pipe."""
    console, steps = session.console, _steps(session)
    _show_heading(session)
    for number, step in enumerate(steps, start=1):
        primer.show_step(console, step, f"{number}/{len(steps)}")
        primer.show_answer(console, step)


def read_primer(session: CommandSession, *, again: bool = False) -> Ending:
    """Show page 0 step by step, from the first question that is open; or all of it again."""
    console, say, steps = session.console, session.console.say, _steps(session)
    answered = frozenset[str]() if again else session.progress.primer
    first = next(i for i, step in enumerate(steps) if _is_open(step, answered))
    _show_heading(session)
    console.print(Text(f"{_keys(session)}.\n"))
    prompt = say("Enter: begin · s: skip page 0 · q: stop  > ")
    if first:
        prompt = say(
            "Enter: continue with step {number} of {total} · s: skip the rest · q: stop  > ",
            number=first + 1,
            total=len(steps),
        )

    def check(typed: str) -> None:
        if typed.lower() not in (SKIP, STOP):
            raise ValueError(say("Press Enter to continue, or type q to stop."))

    if typed := _typed(session, check, prompt=prompt):
        return _leave(session, typed)
    for number, step in enumerate(steps[first:], start=first + 1):
        primer.show_step(console, step, f"{number}/{len(steps)}")
        if step.question and (ending := _ask(session, step, step.question)):
            return ending
    session.journal.record(PageFinished(page=PRIMER))
    return "read"


def _steps(session: CommandSession) -> Sequence[Step]:
    return primer.steps(session.catalogue.page_0, session.console.say)


def _is_open(step: Step, answered: frozenset[str]) -> bool:
    return step.question is None or step.question.name not in answered


def _show_heading(session: CommandSession) -> None:
    console, say = session.console, session.console.say
    heading = say("Page 0: {title}", title=primer.title(say))
    console.rule(Text(heading, "bold"), align="left")
    show_markdown(console, primer.introduction(say), 0)


def _typed(
    session: CommandSession,
    check: Callable[[str], None],
    show: Callable[[], None] | None = None,
    prompt: str = "  > ",
) -> str:
    """Return what is typed, in lower case; at the end of the input, the key that stops."""
    try:
        return read_answer(session.console, check, show, Text(prompt)).lower()
    except EOFError:
        session.console.print()
        return STOP


def _leave(session: CommandSession, typed: str) -> Ending:
    if typed == SKIP:
        session.journal.record(PageFinished(page=PRIMER))
        return "skipped"
    session.console.print(session.console.say("`harness start` continues with page 0."))
    return "stopped"


def _ask(session: CommandSession, step: Step, question: Question) -> Ending | None:
    """Ask a question until the answer can be read, then show the right one and what follows.

    Returns None to go on, or how the learner leaves the page.
    """
    console, say = session.console, session.console.say
    show_markdown(console, question.text, 2, below=0)

    def check(typed: str) -> None:
        if not _is_readable(typed.lower(), question):
            raise ValueError(_remedy(session, question))

    def show() -> None:
        show_code(console, ENGINE, "python", primer.indent_of_code(console))

    typed = _typed(session, check, show)
    if typed in (SKIP, STOP):
        return _leave(session, typed)
    answer = Text.assemble((question.answer, "bold"))
    if typed:
        right = _is_right(typed, question, question.answer, say)
        answer = Text.assemble(mark(right=right, say=say), answer)
        made = PredictionMade(
            page=PRIMER,
            probe=question.name,
            loss=None,
            predicted=typed,
            actual=question.answer,
            right=right,
            question=question.name,
        )
        session.journal.record(made)
    console.print(Padding(answer, (0, 0, 0, 2)))
    for wrong, mistake in question.mistakes.items():
        if typed and _is_right(typed, question, wrong, say):
            show_markdown(console, mistake, 2, below=0)
    show_markdown(console, question.because, 2)
    primer.show_after(console, step)
    return None


def _is_right(typed: str, question: Question, answer: str, say: Language) -> bool:
    """Whether what was typed means this answer to the question."""
    choices = list(question.choices)
    return is_right(typed, QuestionReport("", None, "", answer, "", choices), say)


def _is_readable(typed: str, question: Question) -> bool:
    """Whether what was typed leaves the page, or can be the answer to the question."""
    if typed in (SKIP, STOP):
        return True
    return typed in question.choices if question.choices else is_number(typed)


def _remedy(session: CommandSession, question: Question) -> str:
    say = session.console.say
    keys = _keys(session)
    if not question.choices:
        return say("Type a number. {keys}.", keys=keys)
    return say("Type {choices}. {keys}.", choices=one_of(question.choices, say), keys=keys)


def _keys(session: CommandSession) -> str:
    return session.console.say("Enter shows the answer, ? the engine; s skips page 0, q stops")
