"""A file: templates filled with lessons, a style sheet and a script."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from harness.core.message import Message, message, visible
from harness.core.versions import own_version, version_of
from harness.learn.progress import PRIMER
from harness.pages.page import Page
from harness.report.glossary import read_glossary
from harness.report.html.lesson import PREDICTED, Lesson, inline, markdown
from harness.report.html.primer import PrimerLesson
from harness.report.html.tiles import key
from harness.report.language import ENGLISH, Language
from harness.report.view import STYLES, brief, marked

_HERE = Path(__file__).parent

LINK = re.compile(r'<a([^<>]*?) href="#([^"]*)"')
"""A link to another page."""

STYLE, SCRIPT = "breaklab.css", "breaklab.js"
"""The files that all pages of a site share."""


@dataclass(frozen=True)
class Entry:
    """A page as a list of pages shows it."""

    id: str
    title: str
    note: Message
    """What is said below the title, such as the level."""
    level: int = 0
    lang: str = ""
    """The attribute that marks the title as English, if it is not translated."""
    family: str = ""
    """Its family, by which it is found too; page 0 has none."""
    command: str = ""
    """What to type instead of following a link, for a page that is read in a terminal."""


@dataclass(frozen=True)
class Group:
    """Pages under one heading."""

    entries: Sequence[Entry]
    title: str | Message = ""
    idea: str = ""

    @property
    def size(self) -> Message:
        """How many pages there are."""
        count = len(self.entries)
        return message("1 page") if count == 1 else message("{count} pages", count=count)


@dataclass(frozen=True)
class Place:
    """Where in a site a file is."""

    ids: frozenset[str]
    """The pages that have a file."""
    following: Entry | None = None
    root: str = ""
    """The relative address of the folder with the shared files."""
    languages: Sequence[tuple[str, str, str]] = ()
    """The other languages: code, name, and relative address of the same page."""


def document(
    title: str,
    lessons: Sequence[Lesson],
    say: Language = ENGLISH,
    primer: PrimerLesson | None = None,
    *,
    groups: Sequence[Group] = (),
    place: Place | None = None,
) -> str:
    """Return the HTML of a file with these lessons, in this order, after page 0 if it is given.

    Several lessons follow a list of them. In a site, `groups` are the lists of its first file. A
    link to a page that is neither in the file nor in the site becomes plain text.
    """
    entries = [entry_of(lesson.page, lesson.lang) for lesson in lessons]
    followers = [*entries, place.following if place else None]
    if primer:
        entries.insert(0, primer_entry(primer.title))
    if len(lessons) > 1:
        groups = families(entries)
    html = fill(
        "document.html",
        title,
        say,
        lessons=lessons,
        primer=primer,
        groups=groups,
        followers=followers,
        outcomes=PREDICTED,
        words=_words(say),
        glossary=_glossary(say),
        place=place,
    )
    here = {entry.id for entry in entries}

    def linked(link: re.Match[str]) -> str:
        kind, target = link[1], link[2]
        if place and target in place.ids and target not in here:
            return f'<a{kind} href="{target}.html"'
        return link[0] if kind or target in here else "<a"

    return LINK.sub(linked, html)


def entry_of(page: Page, lang: str, *, command: str = "") -> Entry:
    """Return the entry of a page whose title is in the language that `lang` says."""
    front = page.front
    note = message("level {level}", level=front.level)
    return Entry(front.id, page.title, note, front.level, lang, front.family, command)


def primer_entry(title: str) -> Entry:
    """Return the entry of page 0."""
    return Entry(PRIMER, title, message("the engine itself, before it is broken"))


def fill(template: str, title: str, say: Language = ENGLISH, **values: object) -> str:
    """Return a template, filled with these values, as a whole file.

    Invisible characters and those that change the direction of text are shown as escapes.
    """
    style, script = static("lab.css"), static("lab.js")
    allowed = "'self'" if values.setdefault("place", None) else ""
    return visible(
        _environment()
        .get_template(template)
        .render(
            title=title,
            versions=_versions(),
            say=say,
            style=Markup(style),
            script=Markup(script),
            style_file=STYLE,
            script_file=SCRIPT,
            begin=Markup(BEGIN),
            policy=policy(allowed or _hash(style), _hash(BEGIN), allowed or _hash(script)),
            **values,
        )
    )


def _versions() -> str:
    """Return the versions of what ran everything."""
    numpy = version_of("numpy", "not installed")
    return f"breaklab {own_version()}, numpy {numpy}, Python {platform.python_version()}"


BEGIN = "document.documentElement.classList.add('js')"
"""Runs before anything is drawn, so that a browser without JavaScript shows everything."""


def policy(style: str, *scripts: str) -> str:
    """Return the content security policy: only these sources are used, and nothing else is loaded.

    A source is `'self'`, for the files of a site, or the hash of a text.
    """
    return (
        f"default-src 'none'; style-src {style}; script-src {' '.join(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _glossary(say: Language) -> dict[str, str]:
    """Return the first paragraph about each outcome and each diagnostic."""
    entries = read_glossary(say).values()
    shown = (entry for entry in entries if entry.group in ("outcomes", "diagnostics"))
    return {entry.term: entry.text.partition("\n\n")[0] for entry in shown}


def _words(say: Language) -> dict[str, str]:
    """Return the texts that the script shows, with their fields not yet filled."""
    return {
        "right": say("right"),
        "wrong": say("wrong"),
        "score": say("{right} of {total} right"),
        "step": say("step {n} of {total}"),
        "values": say("values"),
        "gradients": say("gradients"),
        "here": say("Yes, this is where they first differ."),
        "other": say("No, they first differ at the place marked in red."),
        "done": say("done"),
        "number": say("Type a number."),
        "numbers": say("Type numbers."),
    }


@pass_context
def _said(context: Context, text: str | Message) -> Markup:
    """Return a sentence in the reader's language as HTML; mark it as English if untranslated."""
    say: Language = context["say"]
    html = inline(say(text))
    return Markup(html if say.translates(text) else f'<span lang="en">{html}</span>')


def families(entries: Iterable[Entry]) -> list[Group]:
    """Return the entries by family, in the order in which the families come first."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.family, []).append(entry)
    return [Group(members, family) for family, members in groups.items()]


@cache
def static(name: str) -> str:
    """Return the text of a file that is used as it is."""
    return (_HERE / "static" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        key=lambda scale: Markup(key(scale)), brief=brief, marked=marked, styles=STYLES
    )
    environment.filters["svg"] = Markup
    environment.filters["markdown"] = lambda text: Markup(markdown(text))
    environment.filters["inline"] = lambda text: Markup(inline(text))
    environment.filters["said"] = _said
    return environment
