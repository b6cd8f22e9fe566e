"""A myth: a claim, the program that puts it to the test, and what the page says that it prints.

The program is the page's `python` block, run as it stands in a child process; the `text` block
after it has to be what it prints, to the letter. Rounding is up to the program.
"""

from __future__ import annotations

import ast
import difflib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from harness.answers import IMPORT_LIMIT, LIBRARIES
from harness.confine import Limits
from harness.errors import PageError
from harness.finding import Finding
from harness.page import Fence, Page
from harness.program import Program
from harness.sandbox import run_program

SECTION = "The program"

AT_HAND = {"numpy", "minigrad"} | set(sys.stdlib_module_names)
"""What every program may import."""

LONGEST = 25
"""Lines of a program that is read at a glance."""

FOREIGN_KEYS = ("sites", "transformer", "expect", "diagnostics", "pardon")
"""Keys of the front matter that say something about a patch; a myth has none."""


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
    if not (skipped := _why_missing(page.front.needs)):
        default = IMPORT_LIMIT if page.front.needs else None
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
        skipped=skipped,
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
    blocks = _programs(page)
    if len(blocks) != 1:
        problem = f"{len(blocks)} ```python blocks below `## {SECTION}`"
        line = blocks[1].line if blocks else page.body_line
        raise PageError(page.path, line, problem, "a myth has one program: write one block")
    (code,) = blocks
    following = page.fences[page.fences.index(code) + 1 :][:1]
    says = [one for one in following if one.info == ("text",) and one.section == SECTION]
    program = Program(code.text, page.path, code.line, page.front.needs)
    return Exhibit(program, says[0] if says else None)


def _programs(page: Page) -> list[Fence]:
    return [one for one in page.fences if one.section == SECTION and one.info[:1] == ("python",)]


def _why_missing(needs: tuple[str, ...]) -> str | None:
    for name in needs:
        if find_spec(name) is None:
            how = LIBRARIES[name].install if name in LIBRARIES else f"pip install {name}"
            return f"{name} is not installed: {how}"
    return None


def compare_lines(says: str, printed: str) -> list[str]:
    """All lines of both texts, each with a sign: `-`, `+`, or a space for a line of both."""
    left, right = _lines(says), _lines(printed)
    if left == right:
        return [f" {row}" for row in left]
    return list(difflib.unified_diff(left, right, n=sys.maxsize, lineterm=""))[3:]


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


# ----- The check of a page -----


def check_myth(page: Page, limits: Limits | None = None) -> Iterator[Finding]:
    """What is wrong with the page's program, and with what the page says of it.

    Raises PageError where there are several programs.
    """
    if not _programs(page):
        return  # the check of the prose says so
    exhibit = find_exhibit(page)
    yield from _check_front(page)
    yield from _check_source(page, exhibit.program)
    report = run_myth(page, limits)
    line = (exhibit.says or exhibit.program).line
    if report.skipped:
        problem = f"the program was not run: {report.skipped}"
        yield Finding(page.path, exhibit.program.line, problem, "install it, and check again", 0)
    elif report.failure:
        problem = f"the program does not end well: {report.failure}"
        remedy = "what it shall show is printed; an expected exception is caught in the program"
        yield Finding(page.path, exhibit.program.line, problem + _quoted(report.printed), remedy)
    elif not report.printed:
        yield Finding(page.path, line, "the program prints nothing", "print what it shows")
    elif report.says is None:
        problem = f"the page does not say what the program prints{_quoted(report.printed)}"
        remedy = "write it as a ```text block right after the program, once you can say why"
        yield Finding(page.path, line, problem, remedy)
    elif not report.agrees:
        rows = "\n".join(report.differences)
        problem = f"the program does not print what the page says (- the page, + here)\n{rows}"
        yield Finding(page.path, line, problem, "find out which of the two is wrong")


def _quoted(printed: str | None) -> str:
    rows = [f"\n  {row}" for row in _lines(printed or "")]
    return "".join(["; it printed", *rows]) if rows else ""


def _check_front(page: Page) -> Iterator[Finding]:
    for key in FOREIGN_KEYS:
        if getattr(page.front, key):
            remedy = "leave it out: it says something of a patch, and a myth has none"
            yield Finding(page.path, page.line_of(key), f"key `{key}` on a myth", remedy)


def _check_source(page: Page, program: Program) -> Iterator[Finding]:
    lines = program.source.count("\n")
    if lines > LONGEST:
        problem = f"a program of {lines} lines is not read at a glance (about {LONGEST})"
        yield Finding(page.path, program.line, problem, "cut what the claim does not need", 0)
    imported = dict(_imports(program))
    for name, line in imported.items():
        if name not in AT_HAND and name not in program.needs:
            problem = f"the program imports {name}, which not everybody has installed"
            yield Finding(page.path, line, problem, f'say so in front: `needs = ["{name}"]`')
    for name in program.needs:
        if name not in imported:
            problem = f"key `needs` names {name}, which the program does not import"
            yield Finding(page.path, page.line_of("needs"), problem, "leave it out")


def _imports(program: Program) -> Iterator[tuple[str, int]]:
    """Top-level modules that the program imports, and on which line of the page."""
    try:
        tree = ast.parse(program.source)
    except (SyntaxError, ValueError):
        return  # the run will say so
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for name in [module] if module else [alias.name for alias in node.names]:
                yield name.partition(".")[0], program.line + node.lineno - 1
