"""The glossary: outcomes, stages, diagnostics and terms, a screen each.

The diagnostics describe themselves; the other entries are in `en.toml`, and in another language's
file as far as they are translated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rich.padding import Padding
from rich.text import Text

from harness.core.errors import UsageError
from harness.diagnostics import DIAGNOSTICS, Diagnostic
from harness.pages.catalogue import unknown
from harness.report.language import ENGLISH, Language
from harness.report.terminal import Screen

Group = Literal["outcomes", "stages", "terms", "diagnostics"]
GROUPS: tuple[Group, ...] = get_args(Group)


@dataclass(frozen=True)
class Entry:
    """A word and its explanation."""

    term: str
    group: Group
    text: str


def read_glossary(say: Language = ENGLISH) -> dict[str, Entry]:
    """Return all entries by term; those that are not translated are in English."""
    english, other = _read("en"), _read(say.code)
    entries = {
        term: Entry(term, group, other.get(group, {}).get(term, text).strip())
        for group, texts in english.items()
        for term, text in texts.items()
    }
    for item in DIAGNOSTICS:
        outcome = entries.get(item.name)  # `crash` is both
        text = f"{outcome.text}\n\n{_text(item)}" if outcome else _text(item)
        entries[item.name] = Entry(item.name, outcome.group if outcome else "diagnostics", text)
    return entries


def find_entry(word: str, say: Language = ENGLISH) -> Entry:
    """Return the entry of a word, however it is written, in English or in the language.

    Raises UsageError, with the nearest words, if there is none.
    """
    entries = read_glossary(say)
    by_word = {_plain(say(term)): term for term in entries}
    by_word |= {_plain(term): term for term in entries}
    if _plain(word) not in by_word:
        raise _unknown(word, by_word)
    return entries[by_word[_plain(word)]]


def show_entry(console: Screen, entry: Entry) -> None:
    """Print a word and its explanation."""
    say = console.say
    other = f"  ({entry.term})" if say(entry.term) != entry.term else ""
    console.print(Text(f"{say(entry.term)}{other}", "bold"))
    for paragraph in entry.text.split("\n\n"):
        console.print(Padding(Text(paragraph), (0, 0, 0, 2)))


def show_glossary(console: Screen, entries: Mapping[str, Entry]) -> None:
    """Print all words, by group."""
    for group in GROUPS:
        terms = sorted((e.term for e in entries.values() if e.group == group), key=str.casefold)
        console.print(Text(console.say(group), "bold"))
        console.print(Padding(Text(", ".join(terms)), (0, 0, 1, 2)))


def _read(code: str) -> dict[Group, dict[str, str]]:
    path = Path(__file__).parent / f"{code}.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {group: tables[group] for group in GROUPS if group in tables}


def _text(diagnostic: Diagnostic) -> str:
    return (
        f"A diagnostic. It sees {diagnostic.sees}.\n\n"
        f"It cannot see: {diagnostic.blind}.\n\n"
        f"Its cost in forward passes: {diagnostic.cost}."
    )


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word).strip().casefold()


def _unknown(word: str, words: Mapping[str, str]) -> UsageError:
    return unknown("entry for", word, words, "`harness explain` lists all words")
