"""The language in which a report or a page is shown; English is the language of the source.

Records contain messages, and JSON is English. A renderer passes each message through a `Language`,
which looks its template up in a table such as `es.toml`: from the English template to the same
template in the other language, with the same fields.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.message import Message, fields, message

VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The variables that name the language of messages; the first that is set counts, as in gettext."""


@dataclass(frozen=True)
class Language:
    """A language by its code, and its translations of English templates."""

    code: str = "en"
    translations: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, text: str | Message, /, **arguments: object) -> str:
        """Return a message, or a template and its arguments, in this language.

        The whole message is in English if the template is not translated.
        """
        if isinstance(text, Message):
            return text.format(self.translations)
        if not arguments:
            return self.translations.get(text, text)
        return message(text, **arguments).format(self.translations)

    def translates(self, text: str | Message) -> bool:
        """Return whether a message or a template is in this language when it is shown."""
        template = text.template if isinstance(text, Message) else text
        return self.code == ENGLISH.code or template in self.translations

    def with_translations(self, translations: Mapping[str, str]) -> Language:
        """Return the language with more translations, such as those of a catalogue's probes.

        They do not replace any: a catalogue cannot change what breaklab says.
        """
        return replace(self, translations={**translations, **self.translations})


ENGLISH = Language(translations={"disguised-correct": "hidden"})
"""English. One outcome has a longer name in pages and in JSON than on the screen."""


def languages() -> list[str]:
    """Return the codes of all languages that the interface is translated into."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


def open_language(code: str | None) -> Language:
    """Return the language with this code; for None the locale's, if it is available.

    Raises UsageError for a code that is neither English nor one of `languages()`.
    """
    available = languages()
    if code is None:
        code = next((code for code in _locale() if code in ("en", *available)), "en")
    if code == "en":
        return ENGLISH
    if code not in available:
        remedy = message("--lang is one of {languages}", languages=", ".join(["en", *available]))
        raise UsageError(message("no language `{code}`", code=code), remedy)
    text = (Path(__file__).parent / f"{code}.toml").read_text(encoding="utf-8")
    return Language(code, read_translations(text))


def read_translations(text: str) -> dict[str, str]:
    """Return the translations in a TOML text, whatever tables they are in.

    Raises ValueError for a translation that does not have the fields of its template.
    """
    tables = tomllib.loads(text).values()
    translations = {english: other for table in tables for english, other in table.items()}
    for english, other in translations.items():
        if fields(english) != fields(other):
            raise ValueError(f"{other!r} does not have the fields of {english!r}")
    return translations


def _locale() -> list[str]:
    """Return the languages of the first variable that is set: `es_MX.UTF-8:fr` gives es and fr."""
    value = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    return [re.split(r"[_.@-]", part)[0] for part in value.split(":")]
