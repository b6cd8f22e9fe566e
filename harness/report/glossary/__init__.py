"""The glossary: outcomes, stages, terms, the parts of a report and diagnostics, a screen each.

The diagnostics describe themselves; the other entries are in `en.toml`, and in another language's
file as far as they are translated.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from rich.padding import Padding
from rich.text import Text

from harness.core.errors import UsageError, as_message
from harness.diagnostics import DIAGNOSTICS, Diagnostic
from harness.pages.catalogue import unknown
from harness.report.language import ENGLISH, Language
from harness.report.terminal import Screen
from harness.report.view import IN_PLACE_HEADING, NARROW_HEADING, WORDS, table_word

Group = Literal["outcomes", "stages", "terms", "report", "diagnostics"]
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
        text = _text(item, say)
        text = f"{outcome.text}\n\n{text}" if outcome else text
        entries[item.name] = Entry(item.name, outcome.group if outcome else "diagnostics", text)
    return entries


def find_entry(word: str, say: Language = ENGLISH) -> Entry:
    """Return the entry of a word, however it is written, in English or in the language.

    Raises UsageError, with the nearest words, if there is none.
    """
    entries = read_glossary(say)
    by_word = {_plain(_name(entry, say)): term for term, entry in entries.items()}
    by_word |= {_plain(term): term for term in entries}
    for language in (say, ENGLISH):
        for outcome in WORDS:
            by_word.setdefault(_plain(table_word(outcome, "", language)), outcome)
    by_word[_plain(say(NARROW_HEADING))] = IN_PLACE_HEADING
    by_word["upstream"] = "upstream gradient"
    by_word["unbroken"] = "correct"
    if _plain(word) not in by_word:
        raise _unknown(word, by_word)
    return entries[by_word[_plain(word)]]


def show_entry(console: Screen, entry: Entry) -> None:
    """Print a word and its explanation."""
    say = console.say
    name = _name(entry, say)
    other = f"  ({entry.term})" if name != entry.term else ""
    console.print(Text(f"{name}{other}", "bold"))
    for paragraph in entry.text.split("\n\n"):
        console.print(Padding(Text(paragraph), (0, 0, 0, 2)))


def show_glossary(console: Screen, entries: Mapping[str, Entry]) -> None:
    """Print all words, by group."""
    for group in GROUPS:
        names = [_name(e, console.say) for e in entries.values() if e.group == group]
        terms = sorted(names, key=_sort_key)
        console.print(Text(console.say(group), "bold"))
        console.print(Padding(Text(", ".join(terms)), (0, 0, 1, 2)))


def _name(entry: Entry, say: Language) -> str:
    """Return the term in the language; a diagnostic has one name."""
    return entry.term if entry.group == "diagnostics" else say(entry.term)


def _sort_key(name: str) -> str:
    """Return a name without accents, which Unicode sorts after all letters."""
    return unicodedata.normalize("NFD", name.casefold())


def _read(code: str) -> dict[Group, dict[str, str]]:
    path = Path(__file__).parent / f"{code}.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {group: tables[group] for group in GROUPS if group in tables}


def _text(diagnostic: Diagnostic, say: Language) -> str:
    paragraphs = (
        say("A diagnostic. It sees {what}.", what=as_message(diagnostic.sees)),
        say("It cannot see: {what}.", what=as_message(diagnostic.blind)),
        say("Its cost in forward passes: {cost}.", cost=as_message(diagnostic.cost)),
    )
    return "\n\n".join(paragraphs)


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word).strip().casefold()


def _unknown(word: str, words: Mapping[str, str]) -> UsageError:
    if not word.strip():
        return UsageError("no word is given", "`harness explain` lists all words")
    return unknown("entry for", word, words, "`harness explain` lists all words")
