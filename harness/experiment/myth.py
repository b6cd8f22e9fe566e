"""A myth: a claim, the program that tests it, and the output that the page states.

The program is the page's `python` block, run unchanged in a child process. The `text` block after
it must be its exact output; the program does any rounding itself.
"""

from __future__ import annotations

import difflib
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from harness.core.errors import EnvironmentProblem, PageError
from harness.core.message import Message, message
from harness.core.report import QuestionReport
from harness.pages.front_matter import Myth
from harness.pages.page import Fence, Page
from harness.runs.cached_runs import IMPORT_LIMIT, LIBRARIES
from harness.runs.isolated import run_program
from harness.runs.protocol import Program
from harness.sandbox.limits import Limits

SECTION = "The program"

PROGRAM = "program"
"""What a prediction about the output of a myth's program has in place of a probe."""


class MythReport(msgspec.Struct, frozen=True):
    """What a myth's program printed, beside what its page says. Schema 1: as for a break."""

    schema: int
    myth: str
    title: str
    claim: str
    program: str
    says: str | None
    """None if the page states no output."""
    printed: str | None
    """None if the program was not run."""
    failure: Message | None
    skipped: Message | None
    """Why the program was not run, with the remedy."""
    agrees: bool | None
    explanation: str
    when_true: str
    lesson: str
    seconds: float
    questions: list[QuestionReport] = []
    """Those of the page, with the words of the output that answer them."""

    @property
    def differences(self) -> list[str]:
        """All lines of both: `-` only on the page, `+` only printed by the program."""
        return compare_lines(self.says or "", self.printed or "")


@dataclass(frozen=True)
class Exhibit:
    """A page's program, and the output that the page states."""

    program: Program
    says: Fence | None


def run_myth(page: Page, limits: Limits | None = None) -> MythReport:
    """Run the page's program, unless something that it needs is not installed.

    Raises PageError unless there is exactly one program.
    """
    exhibit, start = find_exhibit(page), time.perf_counter()
    says = exhibit.says.text if exhibit.says else None
    printed = failure = None
    missing = missing_library(exhibit.program)
    if missing is None:
        limits = limits or (IMPORT_LIMIT if exhibit.program.needs else Limits())
        printout = run_program(msgspec.structs.replace(exhibit.program, limits=limits))
        printed = printout.text
        failure = printout.failure.sentence if printout.failure else None
    return MythReport(
        schema=1,
        myth=page.id,
        title=page.title,
        claim=page.section("The claim"),
        program=exhibit.program.source,
        says=says,
        printed=printed,
        failure=failure,
        skipped=_skipped(missing) if missing else None,
        agrees=None if printed is None else not failure and agree(says, printed),
        explanation=page.section("What happens"),
        when_true=page.section("When it would be true"),
        lesson=page.section("Lesson"),
        seconds=round(time.perf_counter() - start, 3),
        questions=answered(page, printed if printed is not None else says or ""),
    )


def answered(page: Page, output: str) -> list[QuestionReport]:
    """Return the page's questions with their answers; None if the output has no such word."""
    return [
        QuestionReport(
            probe=PROGRAM,
            loss=None,
            question=asked.question,
            answer=_word(output, *asked.answer),
            because=asked.because,
            choices=list(asked.choices),
        )
        for asked in page.front_as(Myth).ask
    ]


def _word(output: str, line: int, number: int) -> str | None:
    """Return a word of the output, by the number of its line and its own number in it."""
    rows = lines(output)[line - 1 : line]
    words = rows[0].split()[number - 1 : number] if rows else []
    return words[0].rstrip(",;:.") if words else None


def _skipped(missing: EnvironmentProblem) -> Message:
    problem, remedy = missing.sentences
    return message("{problem}: {remedy}", problem=problem, remedy=remedy)


def agree(says: str | None, printed: str) -> bool:
    """Whether the two are the same non-empty text, except for trailing newlines."""
    return says is not None and says.rstrip("\n") == printed.rstrip("\n") != ""


def find_exhibit(page: Page) -> Exhibit:
    """Return the `python` block of the section, and the `text` block that follows it, if any.

    Raises PageError unless there is exactly one program.
    """
    blocks = page.programs(SECTION)
    if len(blocks) != 1:
        problem = message(
            "{count} ```python blocks below `## {section}`", count=len(blocks), section=SECTION
        )
        line = blocks[1].line if blocks else page.body_line
        raise PageError(page.path, line, problem, "a myth has one program: write one block")
    (code,) = blocks
    following = page.fences[page.fences.index(code) + 1 :][:1]
    says = [fence for fence in following if fence.info == ("text",) and fence.section == SECTION]
    program = Program(code.text, page.path, code.line, page.front_as(Myth).needs)
    return Exhibit(program, says[0] if says else None)


def missing_library(program: Program) -> EnvironmentProblem | None:
    """Return the error for the first library that a program needs and that is not installed."""
    for name in program.needs:
        if name not in sys.modules and find_spec(name) is None:
            remedy = (
                LIBRARIES[name].install
                if name in LIBRARIES
                else message("pip install {name}", name=name)
            )
            return EnvironmentProblem(message("{name} is not installed", name=name), remedy)
    return None


def compare_lines(says: str, printed: str) -> list[str]:
    """Return all lines of both texts, each with a sign: `-`, `+`, or a space for a line of both."""
    left, right = lines(says), lines(printed)
    if left == right:
        return [f" {row}" for row in left]
    return list(difflib.unified_diff(left, right, n=sys.maxsize, lineterm=""))[3:]


def lines(text: str) -> list[str]:
    """Return the lines of a text without trailing newlines; none for an empty text."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []
