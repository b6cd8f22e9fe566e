"""The options of `harness grade` that say how its result is shown, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.grade.feedback import Feedback, Grade
    from harness.grade.scoring import Weights
    from harness.grade.suite import SuiteReport
    from harness.pages.page import Page
    from harness.report.grading import Format
    from harness.report.language import Language
    from harness.report.terminal import Screen

FeedbackName = Annotated[
    str | None,
    typer.Option(
        "--feedback",
        metavar="LEVEL",
        help="What is shown: `score`, `stage` or `names`; `stage` by default in formats for "
        "students, else `names`.",
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option("--weights", metavar="FILE", help="A TOML file: how much each break counts."),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="`text`, `json`, `html`, `junit`, `gradescope`, `prairielearn` or `sarif`.",
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write the result to a file; for a cohort, the folder of its results.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="List all breaks that are not killed.")]


@dataclass(frozen=True)
class Results:
    """The choices made on the command line, checked before anything is graded."""

    form: Format
    feedback: Feedback
    weights: Weights
    out: Path | None
    render: Callable[[Grade], str]
    verbose: bool

    def show(
        self, report: SuiteReport, console: Screen, pages: Iterable[Page], root: Path
    ) -> Grade:
        """Print the result of a suite or write it to the file, and return it as shown.

        `pages` are the breaks, and `root` is the folder of the engine's files. Raises
        EnvironmentProblem if the file cannot be written.
        """
        from harness.report.grading import FOR_INSTRUCTORS, text

        grade = self.disclosed(report, pages, root, to_student=self.form not in FOR_INSTRUCTORS)
        if self.out is not None:
            self.write(grade, self.out)
        elif self.form == "text":
            for line in text.lines(grade, self.verbose, console.width):
                console.out(line, highlight=False)
        else:
            print(self.render(grade).rstrip("\n"))
        return grade

    def disclosed(
        self, report: SuiteReport, pages: Iterable[Page], root: Path, *, to_student: bool
    ) -> Grade:
        """Return what may be shown of the result of a suite, with its score."""
        from harness.grade.feedback import disclose

        titles = {page.id: page.title for page in pages}
        return disclose(report, self.feedback, self.weights, titles, root, to_student=to_student)

    def write(self, grade: Grade, file: Path) -> None:
        """Write a result to a file. Raises EnvironmentProblem if that is not possible."""
        from harness.core.writing import write_file

        write_file(file, self.render(grade).rstrip("\n") + "\n")


def open_results(
    pages: Iterable[Page],
    *,
    feedback: str | None = None,
    weights: Path | None = None,
    form: str | None = None,
    out: Path | None = None,
    json: bool = False,
    verbose: bool = False,
    say: Language | None = None,
) -> Results:
    """Return the choices of a command; `json` is short for the format of that name.

    `say` is the language of HTML; English by default.

    Raises UsageError for a value that does not exist or does not fit another one, PageError for a
    file of weights that cannot be read, and EnvironmentProblem for a file that cannot be written or
    a library that is not installed.
    """
    from harness.grade.feedback import Feedback
    from harness.grade.scoring import EVEN, read_weights
    from harness.report.files import require_writable
    from harness.report.grading import FORMATS, default_feedback, renderer
    from harness.report.language import ENGLISH

    if json and form not in (None, "json"):
        problem = message("--json cannot be combined with --format {form}", form=form)
        raise UsageError(problem, "leave one of them out")
    chosen = _choice("--format", form or ("json" if json else "text"), FORMATS)
    level = _choice("--feedback", feedback or default_feedback(chosen), get_args(Feedback))
    render = renderer(chosen, level, say or ENGLISH)
    if out is not None:
        require_writable(out)
    stated = EVEN if weights is None else read_weights(weights, pages)
    return Results(chosen, level, stated, out, render, verbose)


_Choice = TypeVar("_Choice", bound=str)


def _choice(option: str, value: str, choices: Sequence[_Choice]) -> _Choice:
    """Return the choice of that name. Raises UsageError if there is none."""
    from harness.pages.catalogue import nearest

    for choice in choices:
        if choice == value:
            return choice
    problem = message("{option}: there is no `{value}`", option=option, value=value)
    remedy = message(
        "{question}choose {choices}", question=nearest(value, choices), choices=", ".join(choices)
    )
    raise UsageError(problem, remedy)
