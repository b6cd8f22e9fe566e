"""The language in which a report or a page is shown; English is what everything is written in.

What the road says stays English, for JSON and for programs. A face passes each sentence through a
`Language`, which knows it as a phrase of its file (`es.toml`): English with `{}` for what varies,
and the same in the other language with `{0}`, `{1}` for those parts, which are translated in turn.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.core.errors import UsageError

VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""Where a locale names the language of messages, the first that is set first (as gettext does)."""


@dataclass(frozen=True)
class Language:
    """A language by its code, and the phrases that it knows beside English."""

    code: str = "en"
    phrases: Mapping[str, str] = field(default_factory=dict)
    contractions: Mapping[str, str] = field(default_factory=dict)
    """What becomes of words that meet where a part was put in: `de el` is `del`."""

    def __call__(self, text: str, *parts: object) -> str:
        """The text in this language; English where it is not known.

        With `parts`, the text is a phrase, and they take the places of its `{}`.
        """
        if parts:
            return self._contract(self.phrases.get(text, text).format(*map(str, parts)))
        if text in self.phrases:
            return self.phrases[text]
        for pattern, target in self._patterns:
            if found := pattern.fullmatch(text):
                return self._contract(target.format(*(self(part) for part in found.groups())))
        return text

    def with_phrases(self, phrases: Mapping[str, str]) -> Language:
        """The same language, with more phrases: what a catalogue says of its probes."""
        return replace(self, phrases={**self.phrases, **phrases})

    def _contract(self, text: str) -> str:
        for apart, together in self.contractions.items():
            text = text.replace(apart, together)
        return text

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """The phrases with a `{}`, those with the most letters of their own first."""
        templates = sorted(
            (phrase for phrase in self.phrases if "{}" in phrase),
            key=lambda phrase: len(phrase.replace("{}", "")),
            reverse=True,
        )
        return [
            (re.compile("(.+?)".join(map(re.escape, phrase.split("{}"))), re.S), said)
            for phrase in templates
            for said in [self.phrases[phrase]]
        ]


ENGLISH = Language()


def languages() -> list[str]:
    """The codes of all languages that the interface is translated into."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


def open_language(code: str | None) -> Language:
    """The language asked for; where none is, the locale's, if it is one that we have.

    Raises UsageError for a code that is neither English nor one of `languages()`.
    """
    known = languages()
    if code is None:
        code = next((one for one in _locale() if one in ("en", *known)), "en")
    if code == "en":
        return ENGLISH
    if code not in known:
        raise UsageError(f"no language `{code}`", f"--lang takes en or one of {', '.join(known)}")
    tables = tomllib.loads((Path(__file__).parent / f"{code}.toml").read_text(encoding="utf-8"))
    contractions = tables.pop("contractions", {})
    phrases = {phrase: said for table in tables.values() for phrase, said in table.items()}
    return Language(code, phrases, contractions)


def _locale() -> list[str]:
    """The languages of the first variable that is set, `es_MX.UTF-8:fr` being es and fr."""
    said = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    return [re.split(r"[_.@-]", part)[0] for part in said.split(":")]
