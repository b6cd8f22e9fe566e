"""What a typed answer means: an outcome, or a right or wrong answer to a page's question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from harness.core.report import QuestionReport
from harness.core.vocabulary import OUTCOMES, Outcome
from harness.report.language import ENGLISH, Language

CHOICES: tuple[Outcome, ...] = (
    "silent-corruption",
    "crash",
    "disguised-correct",
    "not-reached",
)
"""The outcomes that a learner may predict; the others do not depend on the probe."""


def read_prediction(answer: str, say: Language = ENGLISH) -> Outcome | None:
    """Return the outcome that an answer names, in full or by its first letters; None if empty.

    The names in the language come first, and the English ones are accepted too. Raises ValueError,
    with the remedy, for anything else.
    """
    word = answer.strip().lower()
    if not word:
        return None
    for names in ({say(outcome): outcome for outcome in CHOICES}, {name: name for name in CHOICES}):
        for name, outcome in names.items():
            if name.startswith(word):
                return outcome
    *letters, last = (say(outcome)[0] for outcome in CHOICES)
    choices = say("{first} or {next}", first=", ".join(letters), next=last)
    raise ValueError(say("Type {choices}; ? shows the code", choices=choices))


def names_a_choice(typed: str, choices: Sequence[str], say: Language = ENGLISH) -> bool:
    """Whether what was typed means one of the choices: its text, or its number."""
    return any(
        is_right(typed, QuestionReport("", None, "", choice, "", list(choices)), say)
        for choice in choices
    )


def is_right(typed: str, question: QuestionReport, say: Language = ENGLISH) -> bool:
    """Whether what was typed means the observed answer.

    Numbers are compared to three significant digits, and may be fractions such as 1/3; spaces and
    brackets do not matter. A choice may be named by its number, unless the choices are numbers.
    """
    answer, choices = question.answer or "", question.choices
    if choices and not are_numbers(choices) and typed.isdecimal():
        numbered = {str(number): choice for number, choice in enumerate(choices, start=1)}
        return numbered.get(typed) == answer
    if answer in OUTCOMES:
        try:
            return read_prediction(typed, say) == answer
        except ValueError:
            return _plain(typed) == _plain(say(answer))
    if _plain(typed) in (_plain(answer), _plain(say(answer))):
        return True
    numbers = _numbers(typed)
    return numbers is not None and numbers == _numbers(answer)


def are_numbers(choices: Sequence[str]) -> bool:
    """Whether the choices are numbers, so that they cannot be numbered."""
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
