"""The check of translations: up to date, with the same sections, questions and code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from harness.check import Finding, finding_from
from harness.check.prose import (
    MarkdownText,
    check_leftovers,
    check_links,
    exists,
    link_targets,
    page_text,
)
from harness.core import read_text
from harness.core.errors import PageError
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import (
    Advice,
    Break,
    Myth,
    OutputQuestion,
    ProbedFront,
    Question,
    TrainingBreak,
)
from harness.pages.page import Fence, Page, read_fences, split_front
from harness.pages.probe import Probe
from harness.pages.translation import (
    TranslationFront,
    fingerprint,
    front_fingerprint,
    read_translation_front,
)

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4})?")


def check_translations(page: Page, valid: Page, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield what is wrong with a page's translations.

    `valid` is the page without unknown names, so that its probes can be looked up.
    """
    for language, path in catalogue.translations(page.id).items():
        yield from check_translation(path, page)
        if isinstance(page.front, ProbedFront):
            probes = catalogue.probes_for(valid)
            yield from check_probe_lines(path, probes, catalogue.phrases(language))


def check_translation(path: Path, page: Page) -> list[Finding]:
    """Return the differences between the translation at `path` and its page, by line."""
    try:
        toml, body, line = split_front(read_text(path), str(path))
    except PageError as error:
        return [finding_from(error, str(path))]
    text = MarkdownText(str(path), body, line)
    findings = [
        *_check_language(path),
        *_check_front(toml, text, page),
        *_check_outline(text, page),
        *_check_code(text, page),
        *check_leftovers(text),
        *check_links(text),
        *_check_linked_language(path, text),
    ]
    return sorted(findings, key=lambda finding: finding.line)


def check_probe_lines(
    path: Path, probes: Iterable[Probe], lines: Collection[str]
) -> Iterator[Finding]:
    """Yield the probes whose first line is not among the translated `lines`."""
    language = path.stem.partition(".")[2]
    for probe in probes:
        line = probe.doc.splitlines()[0]
        if line not in lines:
            problem = f"the probe `{probe.name}` is shown in English: `{line}`"
            remedy = f"add a translation of exactly that line to probes/{language}.toml"
            yield Finding(str(path), 1, problem, remedy)


def _check_language(path: Path) -> Iterator[Finding]:
    language = path.stem.partition(".")[2]
    if not _LANGUAGE.fullmatch(language):
        remedy = "name the file ID.LANG.md, with a code such as `es` or `pt-BR`"
        yield Finding(str(path), 1, f"`{language}` is not a language code", remedy)


def _check_front(toml: str, text: MarkdownText, page: Page) -> Iterator[Finding]:
    try:
        front = read_translation_front(toml, text.path)
    except PageError as error:
        remedy = f'once reviewed, it needs one line: `of = "{fingerprint(page)}"`'
        yield text.finding(1, error.problem, remedy)
        return
    if front.of != fingerprint(page):
        yield _outdated(text, page, "of", front.of, fingerprint(page))
    if front.why or front.beware or front.advice or front.ask:
        yield from _check_questions(front, text, page)
        if front.of_front != front_fingerprint(page):
            yield _outdated(text, page, "of_front", front.of_front, front_fingerprint(page))


def _outdated(text: MarkdownText, page: Page, key: str, before: str | None, now: str) -> Finding:
    part = "original" if key == "of" else "front matter of the original"
    problem = (
        f"the {part} has changed since the translation was reviewed: it was {before}, "
        f"and {page.path} is {now}"
    )
    remedy = f'compare the two; once they agree, write `{key} = "{now}"`'
    return text.finding(2, problem, remedy)


def _check_questions(front: TranslationFront, text: MarkdownText, page: Page) -> Iterator[Finding]:
    """Compare the translated front matter: either all of it is translated, or none."""
    original = page.front
    if not isinstance(original, Break | TrainingBreak | Myth):
        yield text.finding(2, f"{original.noun} has no why, beware or questions", "remove them")
        return
    for key in ("why", "beware"):
        if bool(getattr(front, key)) != bool(getattr(original, key, "")):
            problem = f"`{key}` is translated on only one side"
            yield text.finding(2, problem, f"translate `{key}` if the original has it")
    advice = original.advice if isinstance(original, Break) else {}
    for variant in sorted(front.advice.keys() | advice.keys()):
        texts, others = (table.get(variant, Advice()) for table in (front.advice, advice))
        if (bool(texts.why), bool(texts.beware)) != (bool(others.why), bool(others.beware)):
            problem = f"`advice.{variant}` is translated on only one side"
            yield text.finding(2, problem, "translate what the original has, and nothing else")
    questions: Sequence[Question | OutputQuestion] = (
        original.ask if isinstance(original, Break | Myth) else ()
    )
    if len(front.ask) != len(questions):
        problem = f"{len(front.ask)} questions, but the original has {len(questions)}"
        yield text.finding(2, problem, "translate each of them, in the same order")
        return
    for number, (own, its) in enumerate(zip(front.ask, questions, strict=True), start=1):
        if own.choices and len(own.choices) != len(its.choices):
            problem = f"question {number} has {len(own.choices)} choices, not {len(its.choices)}"
            yield text.finding(2, problem, "translate each of them, in the same order")
        if bool(own.because) != bool(its.because):
            problem = f"question {number} has `because` on only one side"
            yield text.finding(2, problem, "translate `because` if the original has it")


def _check_linked_language(path: Path, text: MarkdownText) -> Iterator[Finding]:
    """Warn about links to the original of a page that this language has a translation of."""
    language = path.suffixes[0]
    for target, line in link_targets(text):
        file, mark, heading = target.partition("#")
        translated = file.removesuffix(".md") + language + ".md"
        own = file.endswith(".md") and not file.endswith(f"{language}.md")
        if own and exists(path.parent / translated):
            problem = f"the link `{target}` leads to the original of a page that is translated"
            remedy = f"link to `{translated}{mark and mark + heading}`"
            yield Finding(str(path), line, problem, remedy, 0)


def _check_outline(text: MarkdownText, page: Page) -> Iterator[Finding]:
    """Compare only the number of second-level sections, since headings are translated."""
    original = page_text(page).sections
    if len(text.sections) != len(original):
        names = ", ".join(section.text for section in original)
        problem = f"{len(text.sections)} sections, but the original has {len(original)}"
        yield text.finding(text.line, problem, f"translate each of: {names}")
    if not any(heading.level == 1 for heading in text.headings):
        yield text.finding(text.line, "no title", "start with `# ` and the translated title")


def _check_code(text: MarkdownText, page: Page) -> Iterator[Finding]:
    """Compare the fenced blocks: their text, their info strings and their sections."""
    blocks = list(read_fences(text.body, text.line))
    places, originals = (
        {heading.text: index for index, heading in enumerate(each.sections)}
        for each in (text, page_text(page))
    )
    for number, (own, its) in enumerate(zip_longest(blocks, page.fences), start=1):
        if own is None or its is None:
            problem = f"{len(blocks)} blocks of code, but the original has {len(page.fences)}"
            line = own.line - 1 if own else text.line + text.body.count("\n")
            yield text.finding(line, problem, "copy the blocks of the original unchanged")
            return
        if (own.info, own.text) != (its.info, its.text):
            yield _unlike_code(text, number, own, its)
        elif len(places) == len(originals) and places.get(own.section) != originals.get(
            its.section
        ):
            problem = f"code block {number} is in another section than in the original"
            remedy = f"there it is in `{its.section}`, line {its.line - 1} of {page.path}"
            yield text.finding(own.line - 1, problem, remedy)


def _unlike_code(text: MarkdownText, number: int, own: Fence, its: Fence) -> Finding:
    rows = zip_longest(own.text.splitlines(), its.text.splitlines())
    offset, (actual, expected) = next(
        ((i, pair) for i, pair in enumerate(rows) if pair[0] != pair[1]),
        (-1, (" ".join(own.info), " ".join(its.info))),
    )
    shown = [f"`{row}`" if row is not None else "nothing" for row in (actual, expected)]
    problem = f"code block {number} has {shown[0]}, but the original has {shown[1]}"
    remedy = "copy the block of the original unchanged: code is never translated"
    return text.finding(own.line + offset, problem, remedy)
