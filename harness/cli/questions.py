"""A page's questions on a terminal; the observed answer follows each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rich.text import Text

from harness.cli.prediction import read_prediction
from harness.core.report import QuestionReport
from harness.core.vocabulary import OUTCOMES
from harness.report.language import ENGLISH, Language
from harness.report.terminal import Screen


def ask_questions(console: Screen, questions: Sequence[QuestionReport]) -> None:
    """Ask each question, and show the observed answer; end of input skips the rest."""
    say, count, answered = console.say, 0, 0
    console.print(Text(say("Questions"), "bold"))
    console.print(f"  {say('Enter skips a question; Ctrl-D skips the rest.')}\n")
    for question in questions:
        console.print(Text.assemble((question.probe, "bold"), f"  {say(question.question)}"))
        for number, choice in enumerate(question.choices, start=1):
            label = "" if _are_numbers(question.choices) else f"{number}  "
            console.print(Text(f"    {label}{say(choice)}"))
        try:
            typed = console.input("  > ").strip()
        except EOFError:
            console.print()
            break
        right = bool(typed) and is_right(typed, question, say)
        count, answered = count + right, answered + bool(typed)
        console.print(_reply(question, right if typed else None, say))
    if answered:
        console.print(f"  {say('{count} of {total} right', count=count, total=answered)}\n")


def _reply(question: QuestionReport, right: bool | None, say: Language) -> Text:
    """Return the observed answer and the reason; `right` is None if the question was skipped."""
    marks = {True: (f"  {say('right')}  ", "green"), False: (f"  {say('wrong')}  ", "red")}
    mark = Text("  ") if right is None else Text.assemble(marks[right])
    reason = f"  {say(question.because)}" if question.because else ""
    return Text.assemble(mark, (say(question.answer or ""), "bold"), f"{reason}\n")


def is_right(typed: str, question: QuestionReport, say: Language = ENGLISH) -> bool:
    """Whether what was typed means the observed answer.

    Numbers are compared to three significant digits, and may be fractions such as 1/3; spaces and
    brackets do not matter. A choice may be named by its number, unless the choices are numbers.
    """
    answer, choices = question.answer or "", question.choices
    if choices and not _are_numbers(choices) and typed.isdecimal():
        return choices[int(typed) - 1 : int(typed)] == [answer]
    if answer in OUTCOMES:
        try:
            return read_prediction(typed, say) == answer
        except ValueError:
            return _plain(typed) == _plain(say(answer))
    if _plain(typed) in (_plain(answer), _plain(say(answer))):
        return True
    numbers = _numbers(typed)
    return numbers is not None and numbers == _numbers(answer)


def _are_numbers(choices: Sequence[str]) -> bool:
    return any(choice.lstrip("-").isdecimal() for choice in choices)


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text).casefold()


def _numbers(text: str) -> list[str] | None:
    """Return the numbers of a list or a shape, to three significant digits; None for other text."""
    parts = re.split(r"[\s,]+", re.sub(r"[\[\]()]", " ", text).strip(" ,"))
    try:
        return [f"{_number(part):.3g}" for part in parts if part]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def _number(text: str) -> float:
    return float(Fraction(text)) if re.fullmatch(r"[-+]?\d{1,9}/\d{1,9}", text) else float(text)
