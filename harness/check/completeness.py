"""The check that a break's page is complete: an invariant, a question, `why` and `beware`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.finding import Finding
from harness.pages.front_matter import Break, TrainingBreak
from harness.pages.page import Page

BEGINNER, EXPERT = 1, 3
"""The level at which each variant is explained, and that at which `why`, `beware` and questions are
optional."""


def check_completeness(page: Page) -> Iterator[Finding]:
    """Yield what the page of a break lacks."""
    front = page.front
    if not isinstance(front, Break | TrainingBreak):
        return
    if not (front.no_invariant or any(fence.is_invariant for fence in page.fences)):
        remedy = "write a ```python invariant block below `## Diagnostic`, or state why there is "
        remedy += 'none: `no_invariant = "..."`'
        yield Finding(page.path, 1, "has no invariant", remedy)
    if front.level == EXPERT:
        return
    for key, remedy in (
        ("why", 'say in two sentences why the break does what it does: `why = "..."`'),
        ("beware", 'say in two sentences where it hides: `beware = "..."`'),
    ):
        if not getattr(front, key):
            yield Finding(page.path, page.line_of(key), f"`{key}` is missing", remedy)
    if isinstance(front, Break):
        yield from _check_advice(page, front)
    if isinstance(front, Break) and not front.ask:
        remedy = "add an `[[ask]]` with `probe`, `question` and an `answer` that may surprise"
        yield Finding(page.path, 1, "asks no question", remedy)


def _check_advice(page: Page, front: Break) -> Iterator[Finding]:
    """Compare the variants that the page explains with those of which it states outcomes."""
    stated = {variant for variant, table in page.expect.items() if variant and table}
    for variant in sorted(front.advice.keys() - stated):
        problem = f"`advice.{variant}` explains no outcomes: the page states none for it"
        remedy = f"state them in `[expect.{variant}]`, or remove the text"
        yield Finding(page.path, page.line_of("advice", variant), problem, remedy)
    for variant in sorted(stated) if front.level == BEGINNER else ():
        for key in ("why", "beware"):
            if not getattr(front.advice.get(variant), key, ""):
                problem = (
                    f"`advice.{variant}.{key}` is missing: the page states other outcomes there"
                )
                remedy = f'explain these outcomes: `{key} = "..."` below `[advice.{variant}]`'
                line = page.line_of("expect", variant)
                yield Finding(page.path, line, problem, remedy)
