"""The check of a page's prose, without running anything: sections, leftovers, links and sources.

`check_prose` is for pages; the checks that apply to any Markdown are also used for translations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it.token import Token

from harness.check.links import check_links, check_sources
from harness.check.sections import PYTHON_SECTIONS, optional_sections, sections_of
from harness.core.finding import Finding
from harness.core.vocabulary import shortened
from harness.pages.conventions import Conventions
from harness.pages.markdown import Heading, Text
from harness.pages.page import Page

LONGEST = 120
"""The largest number of lines of a page, so that it can be read in one sitting."""


def check_prose(page: Page, conventions: Conventions) -> list[Finding]:
    """Return all findings about the page's text, by line."""
    text = page_text(page)
    findings = [
        *_check_sections(page, text),
        *_check_blocks(page),
        *(_check_question(page, text) if page.front.kind in ("break", "variant") else ()),
        *check_leftovers(text),
        *_check_front(page),
        *check_links(text),
        *check_sources(page, conventions),
        *_check_length(page),
    ]
    return sorted(findings, key=lambda finding: finding.line)


def page_text(page: Page) -> Text:
    """Return the Markdown of a page."""
    return Text(page.path, page.body, page.body_line)


# ----- Sections -----


def _check_sections(page: Page, text: Text) -> Iterator[Finding]:
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


def _check_section(page: Page, text: Text, heading: Heading) -> Iterator[Finding]:
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
    of_diffs = [name for name in order if name in ("The break", "On other engines")]
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


def _check_question(page: Page, text: Text) -> Iterator[Finding]:
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


def _check_length(page: Page) -> Iterator[Finding]:
    lines = page.body.count("\n") - page.section("On other engines").count("\n")
    if lines > LONGEST:
        problem = f"{lines} lines are too many to read in one sitting (about {LONGEST})"
        yield Finding(page.path, page.body_line, problem, "remove what is not needed here", 0)


# ----- Leftovers -----


def check_leftovers(text: Text) -> Iterator[Finding]:
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


def _html(text: Text, token: Token, tag: str) -> Finding:
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
