"""An exercise as a lesson: a file to start from, and hints one at a time."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap

from harness.core.files import write_new
from harness.core.message import Message, message, verbatim
from harness.pages.front_matter import Exercise
from harness.pages.page import Page

WIDTH = 88
"""The width of a comment."""

FAILURES = 2
"""The number of failed attempts after which hints are offered."""

STEPS = 3
"""The number of hints of an exercise."""

_READ_THE_CHANGE = (
    "Read what the break changes, and look for inputs on which it matters:\n\n{commands}"
)

_TEMPLATE = '''\
{head}
#
# A probe is a function that computes something with the engine. Each argument is an input that
# requires a gradient: a shape, such as (3,), or values, such as [1.0, 2.0]. The function returns
# the output; the backward pass and all checks are run for you. The probe below solves nothing:
# change it until it behaves differently on a broken engine.
#
#     harness exercise {page} {file}


def my_probe(a=(3,)):
    """Say here what the probe exercises."""
    return a + 1.0
'''


def write_start(page: Page, task: str, path: Path) -> None:
    """Write a file to start an exercise from: its task as comments, and a probe that runs.

    Raises UsageError if the file exists.
    """
    text = _TEMPLATE.format(head=_comment(page.title, task), page=page.id, file=path)
    remedy = message(
        "choose another name, or run `harness exercise {page} {path}`", page=page.id, path=path
    )
    write_new(path, text, remedy)


def _comment(title: str, task: str) -> str:
    """Return a title and paragraphs of Markdown as comments."""
    texts = [title, *re.split(r"\n\s*\n", task.strip())]
    paragraphs = [wrap(" ".join(text.split()), WIDTH) for text in texts]
    return "\n#\n".join("\n".join(f"# {line}" for line in lines) for lines in paragraphs)


def hints_of(page: Page, hints: str) -> list[Message]:
    """Return the hints of an exercise, as Markdown: at most three.

    They are the items of its numbered list; any surplus belongs to the last hint. If there are
    fewer, the last step is to read the change itself.
    """
    items = [verbatim(item.strip()) for item in re.split(r"(?m)^\d+\.\s+", hints)[1:]]
    if len(items) >= STEPS:
        rest = verbatim("\n\n".join(map(str, items[STEPS - 1 :])))
        return [*items[: STEPS - 1], rest]
    breaks = page.front_as(Exercise).breaks
    commands = "\n".join(f"    harness diff {name}" for name in breaks)
    return [*items, message(_READ_THE_CHANGE, commands=commands)]
