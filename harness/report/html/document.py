"""The file: templates filled with lessons, one style sheet and one script."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from harness.core.message import Message, visible
from harness.core.versions import own_version, version_of
from harness.report.glossary import read_glossary
from harness.report.html.lesson import PREDICTED, Lesson, inline, markdown
from harness.report.html.primer import PrimerLesson
from harness.report.html.tiles import key
from harness.report.language import ENGLISH, Language
from harness.report.view import STYLES, brief, marked

_HERE = Path(__file__).parent

LINK = re.compile(r'<a href="#([^"]*)">')
"""A link from the text of a page to another page."""


def document(
    title: str,
    lessons: Sequence[Lesson],
    say: Language = ENGLISH,
    primer: PrimerLesson | None = None,
) -> str:
    """Return the HTML of a file with these lessons, in this order, after page 0 if it is given.

    A link of theirs to a page that is not in the file becomes plain text.
    """
    here = {lesson.page.id for lesson in lessons} | ({primer.id} if primer else set())
    html = fill(
        "document.html",
        title,
        say,
        lessons=lessons,
        primer=primer,
        families=_families(lessons),
        outcomes=PREDICTED,
        words=_words(say),
        glossary=_glossary(say),
    )
    return LINK.sub(lambda link: link[0] if link[1] in here else "<a>", html)


def fill(template: str, title: str, say: Language = ENGLISH, **values: object) -> str:
    """Return a template, filled with these values, as a whole file.

    Invisible characters and those that change the direction of text are shown as escapes.
    """
    style, script = _static("lab.css"), _static("lab.js")
    return visible(
        _environment()
        .get_template(template)
        .render(
            title=title,
            versions=_versions(),
            say=say,
            style=Markup(style),
            script=Markup(script),
            begin=Markup(BEGIN),
            policy=policy(style, BEGIN, script),
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
    """Return the content security policy: only these texts run, and nothing is loaded."""
    hashes = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {hashes}; "
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


def _families(lessons: Sequence[Lesson]) -> dict[str, list[Lesson]]:
    families: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        families.setdefault(lesson.page.front.family, []).append(lesson)
    return families


@cache
def _static(name: str) -> str:
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
