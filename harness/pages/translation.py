"""Translations: `ID.LANG.md` contains a page's text in another language, and nothing else.

+++
of = "0123456789ab"        # the fingerprint of the original's Markdown when it was last reviewed
of_front = "ba9876543210"  # the same of its why, beware and questions, if they are translated
why = "..."
beware = "..."

[advice.VARIANT]           # for each in the original
why = "..."
beware = "..."

[[ask]]                    # as many as in the original, in the same order
question = "..."
choices = ["...", "..."]   # in the same order too; left out if they are the same
because = "..."
+++
# The title in that language
... the same sections in the same order, with the same code byte for byte
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from harness.core import read_text
from harness.core.errors import PageError
from harness.core.message import message
from harness.pages.front_matter import (
    Advice,
    Break,
    FrontMatter,
    Myth,
    NonEmpty,
    OutputQuestion,
    Question,
    TrainingBreak,
)
from harness.pages.page import Page, read_title, split_front

AnyQuestion = TypeVar("AnyQuestion", Question, OutputQuestion)
Fingerprint = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12}$")]


class TranslatedQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a question; the rest of it is in the original."""

    question: NonEmpty
    choices: tuple[NonEmpty, ...] = ()
    because: str = ""


class TranslationFront(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The front matter of a translation."""

    of: Fingerprint
    of_front: Fingerprint | None = None
    why: str = ""
    beware: str = ""
    advice: dict[str, Advice] = {}
    ask: tuple[TranslatedQuestion, ...] = ()


def fingerprint(page: Page) -> str:
    """Return the version of a page, for its translations: 12 hex digits of the body's SHA-256."""
    return _digest(page.body)


def front_fingerprint(page: Page) -> str:
    """Return the version of what is translated of a page's front matter: also 12 hex digits."""
    return _digest("\0".join(_texts(page.front)))


def read_translation_front(toml: str, path: str) -> TranslationFront:
    """Return the front matter of a translation. Raises PageError if it is not one."""
    try:
        return msgspec.convert(tomllib.loads(toml), TranslationFront)
    except (ValueError, RecursionError) as error:
        problem = message("the front matter is not that of a translation: {error}", error=error)
        remedy = "the keys of a translation are of, of_front, why, beware, [advice] and [[ask]]"
        raise PageError(path, 1, problem, remedy) from None


def translated(page: Page, path: Path) -> Page:
    """Return the page with the texts of its translation at `path`.

    Raises PageError for a file that is not text, or has no valid front matter or no title.
    """
    name = str(path)
    toml, body, line = split_front(read_text(path), name)
    front = _translated_front(page.front, read_translation_front(toml, name))
    title = read_title(body, name, line)
    return replace(page, path=name, front=front, title=title, body=body, body_line=line)


def phrases(page: Page, shown: Page) -> dict[str, str]:
    """Return the texts of a page's front matter, each with that of its translation.

    A text that is the same in both is left out: it may be an outcome, which has a name elsewhere.
    """
    pairs = zip(_texts(page.front), _texts(shown.front), strict=True)
    return {text: other for text, other in pairs if text != other}


def _translated_front(front: FrontMatter, translation: TranslationFront) -> FrontMatter:
    """Return the front matter in the other language, as far as it is translated."""
    if isinstance(front, Myth) and len(front.ask) == len(translation.ask):
        return msgspec.structs.replace(front, ask=tuple(map(_question, front.ask, translation.ask)))
    if not isinstance(front, Break | TrainingBreak):
        return front
    front = msgspec.structs.replace(
        front, why=translation.why or front.why, beware=translation.beware or front.beware
    )
    if not isinstance(front, Break):
        return front
    advice = {
        variant: Advice(other.why or own.why, other.beware or own.beware)
        for variant, own in front.advice.items()
        for other in [translation.advice.get(variant, Advice())]
    }
    front = msgspec.structs.replace(front, advice=advice)
    if len(front.ask) != len(translation.ask):
        return front
    return msgspec.structs.replace(front, ask=tuple(map(_question, front.ask, translation.ask)))


def _question(question: AnyQuestion, other: TranslatedQuestion) -> AnyQuestion:
    same = len(other.choices) == len(question.choices)
    return msgspec.structs.replace(
        question,
        question=other.question,
        choices=other.choices if same else question.choices,
        because=other.because or question.because,
    )


def _texts(front: FrontMatter) -> Iterator[str]:
    """Yield the texts that a translation translates."""
    if isinstance(front, Break | TrainingBreak):
        yield from (front.why, front.beware)
    if isinstance(front, Break):
        for _, advice in sorted(front.advice.items()):
            yield from (advice.why, advice.beware)
    if isinstance(front, Break | Myth):
        for question in front.ask:
            yield from (question.question, *question.choices, question.because)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
