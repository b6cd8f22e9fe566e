"""The check of a page's prose, without running anything: sections, leftovers, links and sources.

`check_prose` is for pages; the checks that apply to any Markdown are also used for translations.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.check import Finding
from harness.core import DOCUMENTS, PACKAGES, read_text
from harness.core.errors import PageError
from harness.core.message import shortened
from harness.core.vocabulary import PageKind
from harness.pages.conventions import Conventions
from harness.pages.front_matter import Break, Control, TrainingBreak, Variant
from harness.pages.page import Page, split_front

LONGEST = 120
"""The largest number of lines of a page, so that it can be read in one sitting."""


def check_prose(page: Page, conventions: Conventions) -> list[Finding]:
    """Return all findings about the page's text, by line."""
    text = page_text(page)
    findings = [
        *_check_sections(page, text),
        *_check_blocks(page),
        *(_check_question(page, text) if page.front.kind in ("break", "variant") else ()),
        *_check_general(page, text),
        *check_leftovers(text),
        *_check_front(page),
        *check_links(text),
        *check_sources(page, conventions),
        *_check_length(page),
    ]
    return sorted(findings, key=lambda finding: finding.line)


def page_text(page: Page) -> MarkdownText:
    """Return what follows the front matter, with its place in the file."""
    return MarkdownText(page.path, page.body, page.body_line)


# ----- Sections -----


def _check_sections(page: Page, text: MarkdownText) -> Iterator[Finding]:
    kind = page.front.kind
    order, optional = list(sections_of(kind)), optional_sections(kind)
    valid: list[Heading] = []
    for heading in text.sections:
        if heading.text not in order:
            remedy = f"the sections of a {kind} are {', '.join(order)}; use `###` for others"
            yield text.finding(heading.line, f"unknown section `{heading.text}`", remedy)
        elif heading.text in {before.text for before in valid}:
            remedy = "merge the two, or make one a `###`"
            yield text.finding(heading.line, f"a second section `{heading.text}`", remedy)
        else:
            valid.append(heading)
            yield from _check_section(page, text, heading)
    names = [heading.text for heading in valid]
    for name in order:
        if name not in names and name not in optional:
            before = [other for other in order[: order.index(name)] if other in names]
            place = f"after `## {before[-1]}`" if before else "as the first section"
            yield text.finding(text.line, f"no section `{name}`", f"add `## {name}` {place}")
    for heading, following in pairwise(valid):
        if order.index(following.text) < order.index(heading.text):
            problem = f"the section `{following.text}` comes after `{heading.text}`"
            yield text.finding(following.line, problem, f"the order is {', '.join(order)}")


def _check_section(page: Page, text: MarkdownText, heading: Heading) -> Iterator[Finding]:
    if not page.section(heading.text):
        remedy = "write it; `harness show ID` shows how another page does it"
        yield text.finding(heading.line, f"the section `{heading.text}` is empty", remedy)
    if heading.text in PYTHON_SECTIONS and not page.programs(heading.text):
        problem = f"the section `{heading.text}` has no ```python block"
        yield text.finding(heading.line, problem, "write one, or remove the section")


def _check_blocks(page: Page) -> Iterator[Finding]:
    """Yield `diff` blocks that are not applied, and `python` blocks that do not run."""
    kind = page.front.kind
    of_python = [name for name in sections_of(kind) if name in PYTHON_SECTIONS]
    order = () if kind == "exercise" else sections_of(kind)
    of_diffs = [name for name in order if name in ("The break", "On other engines", "The slip")]
    homes = {"diff": of_diffs, "python": of_python}
    invariants = ["Diagnostic"] if kind == "break" else []
    for fence in page.fences:
        allowed = homes.get(fence.info[0]) if fence.info else None
        allowed = invariants if fence.is_invariant else allowed
        if allowed and fence.section not in allowed:
            home = " or ".join(allowed)
            remedy = f"move it to `## {home}`, or indent it by four spaces instead of fencing it"
            problem = f"a ```{fence.info[0]} block outside the section `{home}`"
            yield Finding(page.path, fence.line - 1, problem, remedy)


def _check_question(page: Page, text: MarkdownText) -> Iterator[Finding]:
    """The hypothesis must ask for a prediction; that of a break must contain a number."""
    heading = next((item for item in text.sections if item.text == "Hypothesis"), None)
    question = re.sub(r"<!--.*?-->", "", page.section("Hypothesis"), flags=re.S).strip()
    if heading is None or not question:
        return  # a finding already
    if not re.search(r"\?|predict|guess|before you", question, re.I):
        remedy = "ask for a prediction: which probe crashes, which is silently wrong, by how much?"
        yield text.finding(heading.line, "the hypothesis asks no question", remedy)
    if page.front.kind == "break" and not re.search(r"\d", question):
        remedy = "give the shapes and the correct value, as a basis for a prediction"
        yield text.finding(heading.line, "the hypothesis contains no number", remedy)


OF_TRAINING = re.compile(
    r"\b(loss(es)? (also |still )?(falls?|fell|goes down|decreases?)|downhill"
    r"|(it|model|network|which|and) (still |also |even )?(trains|learns)"
    r"|training (continues|goes on|works|succeeds))\b",
    re.I,
)
A_BOUND = re.compile(r"\b(at most|no more than)\b", re.I)
"""What a page often says of every input although it holds only for some."""

CONDITION = re.compile(
    r"`|\]\(|\b(if|where|when|unless|until|once|here|these|this|probes?|as long as|with|without)\b",
    re.I,
)
"""A sentence that names its inputs has code, a link to its source, or a condition."""


def _check_general(page: Page, text: MarkdownText) -> Iterator[Finding]:
    """Yield a break's sentences on training or bounds without inputs, a probe or a source."""
    front = page.front
    if not isinstance(front, Break | TrainingBreak):
        return
    for key, said in (("why", front.why), ("beware", front.beware)):
        for claim in filter(_is_general, _sentences(said)):
            yield text.finding(page.line_of(key), *_general(claim))
    for token in text.tokens:
        for claim in _sentences(token.content if token.type == "inline" else ""):
            if _is_general(claim) and not claim.startswith("|"):
                line = text.line_of(token, " ".join(claim.split(" ")[:2]))
                yield text.finding(line, *_general(claim))


def _sentences(said: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", said.replace("\n", " "))


def _is_general(claim: str) -> bool:
    if claim.endswith("?"):
        return False
    named = CONDITION.search(claim)
    of_training = OF_TRAINING.search(claim) and not re.search(r"\d", claim)
    return not named and bool(of_training or A_BOUND.search(claim))


def _general(sentence: str) -> tuple[str, str]:
    problem = f"`{shortened(sentence, 80)}` is said of every input"
    return problem, "name the inputs or the probe that shows it, link to its source, or cut it"


def _check_length(page: Page) -> Iterator[Finding]:
    lines = page.body.count("\n") - page.section("On other engines").count("\n")
    if lines > LONGEST:
        problem = f"{lines} lines are too many to read in one sitting (about {LONGEST})"
        yield Finding(page.path, page.body_line, problem, "remove what is not needed here", 0)


# ----- Leftovers -----


def check_leftovers(text: MarkdownText) -> Iterator[Finding]:
    """Yield leftovers of the template: comments, tags, TODO, and lines of dots."""
    for number, row in enumerate(text.body.splitlines(), start=text.line):
        yield from _check_todo(text.path, number, row)
    for token in text.tokens:
        if token.type == "html_block":
            yield _html(text, token, token.content)
        for part in token.children or () if token.type == "inline" else ():
            if part.type == "html_inline":
                yield _html(text, token, part.content)
            elif part.type == "text" and re.search(r"<\s*(\.\.\.|…)?\s*>", part.content):
                yield text.finding(
                    text.line_of(token), "a placeholder `<...>` is left", "write the text"
                )
        for row in token.content.splitlines() if token.type == "inline" else ():
            if re.fullmatch(r"[|\s]*(\.\.\.|…)[|\s.…]*", row):
                line = text.line_of(token, row.strip())
                yield text.finding(line, f"a placeholder `{row.strip()}` is left", "write the text")


def _html(text: MarkdownText, token: Token, tag: str) -> Finding:
    first = tag.strip().splitlines()[0]
    shown = shortened(first, 60)
    if tag.lstrip().startswith("<!--"):
        problem, remedy = f"the comment `{shown}` is left", "do what it says, then delete it"
    else:
        problem = f"`{shown}` is read as HTML, which is not displayed"
        remedy = "write the text; put code between backticks"
    return text.finding(text.line_of(token, first), problem, remedy)


def _check_todo(path: str, number: int, row: str) -> Iterator[Finding]:
    if word := re.search(r"\b(TODO|FIXME|TBD|XXX)\b", row):
        yield Finding(path, number, f"`{word.group()}` is left", "do it, then delete the word")


def _check_front(page: Page) -> Iterator[Finding]:
    rows = list(enumerate(page.toml.splitlines(), start=2))
    for number, row in rows:
        yield from _check_todo(page.path, number, row)
    left = [number for number, row in rows if re.search(r"#\s*observed:", row)]
    if left:
        problem = f"comments `# observed: ...` of the template are left, {len(left)} in all"
        remedy = "state the outcomes and claims, then delete the comments"
        yield Finding(page.path, left[0], problem, remedy)


# ----- Links and sources -----


SOURCE_FORMS = (
    "a repository, `owner/repo`, optionally followed by `#123` (issue or pull request), `@1a2b3c4` "
    "(commit or release) or `:item`; or an address `https://...`"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(#\d+|@[\w.-]+|:[\w.-]+)?")
_WEB = re.compile(r"https?://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(:\d+)?([/?#]\S*)?")


def check_links(text: MarkdownText) -> Iterator[Finding]:
    """Yield broken links: without a file, without a heading, or with a malformed address.

    Web addresses are not visited.
    """
    for target, line in link_targets(text):
        if wrong := _wrong_link(text, target):
            yield text.finding(line, *wrong)


def link_targets(text: MarkdownText) -> Iterator[tuple[str, int]]:
    """Yield the targets of links, images and bare addresses, each with its line."""
    for token in text.tokens:
        inside = 0
        for part in token.children or () if token.type == "inline" else ():
            inside += {"link_open": 1, "link_close": -1}.get(part.type, 0)
            targets = [str(part.attrs.get(name, "")) for name in ("href", "src") if part.attrs]
            if part.type == "text" and not inside:  # an address that is not marked as a link
                targets += [
                    word.rstrip(".,;:)]") for word in re.findall(r"\bhttps?:\S*", part.content)
                ]
            for target in map(unquote, filter(None, targets)):
                yield target, text.line_of(token, target)


def _wrong_link(text: MarkdownText, target: str) -> tuple[str, str] | None:
    """Return the problem and the remedy of a wrong link; None if it is right."""
    malformed = (
        f"`{target}` is not a well-formed address",
        "write it in full: `https://host.org/path`",
    )
    try:
        parts = urlsplit(target)
    except ValueError:  # an unclosed bracket of an IPv6 address
        return malformed
    if parts.scheme in ("http", "https"):
        return None if _WEB.fullmatch(target) else malformed
    if parts.scheme or target.startswith(("/", "\\")):
        remedy = "link to a file beside the page, or to an http(s) address"
        return f"the link `{target}` does not work on another computer", remedy
    file = _linked_file(Path(text.path), parts.path)
    if not exists(file):
        return (
            f"the link `{target}` does not lead to a file",
            "correct the path, relative to this page",
        )
    if parts.fragment and (file == Path(text.path) or file.suffix == ".md"):
        anchors = _anchors(text if not parts.path else _read_markdown(file))
        if parts.fragment not in anchors:
            return (
                f"the link `{target}` does not lead to a heading",
                f"the headings are {', '.join(anchors)}",
            )
    return None


def _linked_file(page: Path, target: str) -> Path:
    """Return the file that a page links to; our own documents are elsewhere in a wheel."""
    file = page.parent / target if target else page
    named, documents = Path(os.path.abspath(file)), PACKAGES / "docs"  # noqa: PTH100  links stay
    return DOCUMENTS / named.relative_to(documents) if named.is_relative_to(documents) else file


def exists(file: Path) -> bool:
    """Whether there is such a file or folder."""
    try:
        return file.exists()
    except OSError:  # longer than a file name can be
        return False


def _read_markdown(file: Path) -> MarkdownText:
    body = read_text(file)
    with contextlib.suppress(PageError):  # a README has no front matter
        _, body, _ = split_front(body, str(file))
    return MarkdownText(str(file), body, 1)


def _anchors(text: MarkdownText) -> list[str]:
    """Return the anchors of the headings, formed as on GitHub."""
    anchors: list[str] = []
    for heading in text.headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.text.lower()).replace(" ", "-")
        taken = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in anchors
        )
        anchors.append(f"{anchor}-{taken}" if taken else anchor)
    return anchors


def check_sources(page: Page, conventions: Conventions) -> Iterator[Finding]:
    """Yield missing and malformed sources; breaks, myths and exercises must have some."""
    line = page.line_of("sources")
    forms = "; or ".join(
        [SOURCE_FORMS, *(f"`{form}`, {what}" for form, what in conventions.sources.items())]
    )
    must_have = not isinstance(page.front, Variant | Control)
    if must_have and not page.front.sources:
        yield Finding(page.path, line, "no sources", f"add where it was found: {forms}")
    for source in page.front.sources:
        is_repository = _REPOSITORY.fullmatch(source) and not conventions.is_misspelt(source)
        if not (conventions.is_abbreviation(source) or _WEB.fullmatch(source) or is_repository):
            yield Finding(page.path, line, f"the source `{source}` has an unknown form", forms)


# ----- The sections of each kind of page, in order, each with a new page's hint for it -----


_LESSON = "What is true beyond this page, in a sentence or two."
_REFERENCES = "Where it was found, and where it is explained."

BREAK_SECTIONS: Mapping[str, str] = {
    "Hypothesis": "What the code is for, in two sentences. Then ask for a prediction: which probe "
    "crashes, which is silently wrong, which is right? Give shapes and a correct value to start "
    "from.",
    "The break": "What was changed, and how one might come to write it. Probes of your own go into "
    "a `python` block in the section `Probes` after this one, which starts with the imports that "
    "they need, such as `import numpy as np`.",
    "Probes": "",
    "What happens": "Probe by probe, or case by case, with the numbers you saw. Why some "
    "probes do not show it.",
    "Diagnostic": "How to see it from logs alone; what the invariant above cannot see; the "
    "stronger check. The invariant holds on every correct engine, and fails on the broken one. If "
    'there is none, remove the block, and write `no_invariant = "the reason"` in the front matter.',
    "Lesson": _LESSON,
    "References": _REFERENCES,
    "On other engines": "",
}
VARIANT_SECTIONS: Mapping[str, str] = {
    **BREAK_SECTIONS,
    "The break": "Not a break: an equally correct rewrite. What was changed, and who writes it.",
    "Diagnostic": "Nothing may raise an alarm. What it means for your own engine.",
}
MYTH_SECTIONS: Mapping[str, str] = {
    "The claim": "What is taught, in your own words, and where.",
    "The program": "What it does, line by line where that is not obvious.",
    "What happens": BREAK_SECTIONS["What happens"],
    "When it would be true": "The case, the library or the year in which the claim is true.",
    "Lesson": _LESSON,
    "References": _REFERENCES,
}
EXERCISE_SECTIONS: Mapping[str, str] = {
    "The suite": "The tests as a course would write them, with one blind spot.",
    "The break": "Which break passes, in words, with a link to its page; what the suite catches.",
    "Your task": "What to write, and what to predict before it runs.",
    "Hints": "A list, starting with a gentle hint.",
    "Answer": "Why it kills the break, with the numbers you saw; why the suite could not.",
    "Lesson": "What is true beyond this suite, in a sentence or two.",
    "References": _REFERENCES,
}
OPERATOR_SECTIONS: Mapping[str, str] = {
    "The slip": "What is written instead of what, and how the slip happens. Each hunk of the "
    "```diff block is applied at one site at a time; its scope is `rule.backward`, "
    "`rule.forward` or `rule`.",
    "The rule": "A small rule with a site, as a `python` block: the file `rule.py`.",
    "A suite that misses it": "Typical tests that import from `rule`, and pass on every mutant.",
    "Why it is missed": "What these tests have in common, and which other usual checks miss it.",
    "The test to write": "Tests, at least one of which fails on each mutant.",
    "Seen in": "The bugs that it imitates, each with what happened there.",
}
PYTHON_SECTIONS = (
    *("Probes", "The program", "The suite", "Answer"),
    *("The rule", "A suite that misses it", "The test to write"),
)
"""Sections with a Python block that runs."""


def sections_of(kind: PageKind) -> Mapping[str, str]:
    """Return the second-level sections that a page of that kind may have, and their hints."""
    tables: Mapping[PageKind, Mapping[str, str]] = {
        "variant": VARIANT_SECTIONS,
        "myth": MYTH_SECTIONS,
        "exercise": EXERCISE_SECTIONS,
        "operator": OPERATOR_SECTIONS,
    }
    return tables.get(kind, BREAK_SECTIONS)


def optional_sections(kind: PageKind) -> frozenset[str]:
    """Return the sections that a page of that kind may omit."""
    if kind in ("myth", "exercise", "operator"):
        return frozenset()
    optional = frozenset({"Probes", "On other engines"})
    return optional if kind == "break" else optional | {"References"}


# ----- Markdown, with the line in the file of each part -----


@dataclass(frozen=True)
class Heading:
    """A heading's level, plain text, and line in the file."""

    level: int
    text: str
    line: int


@dataclass(frozen=True)
class MarkdownText:
    """Markdown that starts at `line` of the file at `path`."""

    path: str
    body: str
    line: int

    @cached_property
    def tokens(self) -> list[Token]:
        """CommonMark's block tokens; inline ones are their children."""
        return MarkdownIt("commonmark").parse(self.body)

    @cached_property
    def headings(self) -> tuple[Heading, ...]:
        """Every heading, in order."""
        return tuple(
            Heading(int(token.tag[1]), _plain_text(inline), self.line_of(inline))
            for token, inline in zip(self.tokens, self.tokens[1:], strict=False)
            if token.type == "heading_open"
        )

    @property
    def sections(self) -> list[Heading]:
        """The second-level headings."""
        return [heading for heading in self.headings if heading.level == 2]

    def line_of(self, token: Token, words: str = "") -> int:
        """The line of the file where a block starts, or its first line that contains `words`."""
        start, end = token.map or (0, 0)
        rows = self.body.splitlines()[start:end]
        return self.line + start + next((i for i, row in enumerate(rows) if words in row), 0)

    def finding(self, line: int, problem: str, remedy: str) -> Finding:
        """Return a finding in this text."""
        return Finding(self.path, line, problem, remedy)


def _plain_text(inline: Token) -> str:
    return "".join(part.content for part in inline.children or ()).strip()
