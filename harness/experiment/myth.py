"""A myth: a claim, the program that puts it to the test, and what the page says that it prints.

The program is the page's `python` block, run as it stands in a child process; the `text` block
after it has to be what it prints, to the letter. Rounding is up to the program.
"""

from __future__ import annotations

import difflib
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from harness.core.errors import EnvironmentProblem, PageError
from harness.pages.front_matter import Myth
from harness.pages.page import Fence, Page
from harness.runs.host import run_program
from harness.runs.oracles import IMPORT_LIMIT, LIBRARIES
from harness.runs.program import Program
from harness.sandbox.limits import Limits

SECTION = "The program"


class MythReport(msgspec.Struct, frozen=True):
    """What a myth's program printed, beside what its page says. Schema 1: as for a break."""

    schema: int
    myth: str
    title: str
    claim: str
    program: str
    says: str | None
    """None where the page says nothing."""
    printed: str | None
    """None where the program was not run."""
    failure: str | None
    skipped: str | None
    """Why the program was not run, with the remedy."""
    agrees: bool | None
    explanation: str
    when_true: str
    lesson: str
    seconds: float

    @property
    def differences(self) -> list[str]:
        """All lines of both: `-` only the page says, `+` only the program prints."""
        return compare_lines(self.says or "", self.printed or "")


@dataclass(frozen=True)
class Exhibit:
    """A page's program, and what the page says that it prints."""

    program: Program
    says: Fence | None


def run_myth(page: Page, limits: Limits | None = None) -> MythReport:
    """Run the page's program, unless something that it needs is not installed.

    Raises PageError where there is not exactly one program.
    """
    exhibit, start = find_exhibit(page), time.perf_counter()
    says = exhibit.says.text if exhibit.says else None
    printed = failure = None
    missing = missing_library(exhibit.program)
    if missing is None:
        default = IMPORT_LIMIT if exhibit.program.needs else None
        printout = run_program(exhibit.program, limits or default)
        printed, failure = printout.text, str(printout.failure) if printout.failure else None
    return MythReport(
        schema=1,
        myth=page.id,
        title=page.title,
        claim=page.section("The claim"),
        program=exhibit.program.source,
        says=says,
        printed=printed,
        failure=failure,
        skipped=f"{missing.problem}: {missing.remedy}" if missing else None,
        agrees=None if printed is None else not failure and agree(says, printed),
        explanation=page.section("What happens"),
        when_true=page.section("When it would be true"),
        lesson=page.section("Lesson"),
        seconds=round(time.perf_counter() - start, 3),
    )


def agree(says: str | None, printed: str) -> bool:
    """Whether the two are the same text, and any at all; only line ends at the end are free."""
    return says is not None and says.rstrip("\n") == printed.rstrip("\n") != ""


def find_exhibit(page: Page) -> Exhibit:
    """The one `python` block of the section, and the `text` block that comes next, if it does.

    Raises PageError for no program, or several.
    """
    blocks = programs(page)
    if len(blocks) != 1:
        problem = f"{len(blocks)} ```python blocks below `## {SECTION}`"
        line = blocks[1].line if blocks else page.body_line
        raise PageError(page.path, line, problem, "a myth has one program: write one block")
    (code,) = blocks
    following = page.fences[page.fences.index(code) + 1 :][:1]
    says = [one for one in following if one.info == ("text",) and one.section == SECTION]
    program = Program(code.text, page.path, code.line, page.front_as(Myth).needs)
    return Exhibit(program, says[0] if says else None)


def programs(page: Page) -> list[Fence]:
    """The `python` blocks of the section; a sound page has one."""
    return [one for one in page.fences if one.section == SECTION and one.info[:1] == ("python",)]


def missing_library(program: Program) -> EnvironmentProblem | None:
    """The error about the first library that a program needs and that is not installed."""
    for name in program.needs:
        if find_spec(name) is None:
            remedy = LIBRARIES[name].install if name in LIBRARIES else f"pip install {name}"
            return EnvironmentProblem(f"{name} is not installed", remedy)
    return None


def compare_lines(says: str, printed: str) -> list[str]:
    """All lines of both texts, each with a sign: `-`, `+`, or a space for a line of both."""
    left, right = lines(says), lines(printed)
    if left == right:
        return [f" {row}" for row in left]
    return list(difflib.unified_diff(left, right, n=sys.maxsize, lineterm=""))[3:]


def lines(text: str) -> list[str]:
    """The lines of a text without the line ends after the last; none for an empty text."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []
