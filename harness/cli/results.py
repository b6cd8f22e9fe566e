"""The options of `grade`, `cohort` and `merge` that say how results are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.cli.session import Session
    from harness.grade.feedback import Feedback, Grade
    from harness.grade.suite import SuiteReport, Weights
    from harness.report.grading import Format
    from harness.report.language import Language

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


@dataclass(frozen=True)
class Results:
    """The choices made on the command line, checked before anything is graded."""

    session: Session
    form: Format
    feedback: Feedback
    weights: Weights
    render: Callable[[Grade], str]

    def disclosed(self, report: SuiteReport, *, to_student: bool) -> Grade:
        """Return what may be shown of the result of a suite, with its score."""
        from harness.grade.feedback import disclose

        titles = {page.id: page.title for page in self.session.catalogue.valid_pages()}
        root = self.session.engine.root
        return disclose(report, self.feedback, self.weights, titles, root, to_student=to_student)

    def write(self, grade: Grade, file: Path) -> None:
        """Write a result to a file. Raises EnvironmentProblem if that is not possible."""
        from harness.core.writing import write_file

        write_file(file, self.render(grade).rstrip("\n") + "\n")


def open_results(
    session: Session,
    *,
    feedback: str | None = None,
    weights: Path | None = None,
    form: str | None = None,
    lang: str | None = None,
) -> Results:
    """Return the choices of a command; `lang` is the language of HTML.

    Raises UsageError for a value that does not exist or does not fit another one, PageError for a
    file of weights that cannot be read, and EnvironmentProblem for a library that is not installed.
    """
    from harness.grade.feedback import Feedback
    from harness.grade.suite import EVEN, read_weights
    from harness.report.grading import FORMATS, default_feedback, renderer
    from harness.report.language import ENGLISH

    chosen = _choice("--format", form or "text", FORMATS)
    level = _choice("--feedback", feedback or default_feedback(chosen), get_args(Feedback))
    say = _language(session, lang) if chosen == "html" else ENGLISH
    render = renderer(chosen, level, say)
    pages = session.catalogue.valid_pages()
    stated = EVEN if weights is None else read_weights(weights, pages)
    return Results(session, chosen, level, stated, render)


def _language(session: Session, code: str | None) -> Language:
    """Return the language of HTML, with the titles of the pages that are translated."""
    from dataclasses import replace

    there = replace(session, lang=code)
    if there.language.code == "en":
        return there.language
    titled = ((page, there.titled(page)) for page in session.catalogue.valid_pages())
    titles = {page.title: shown.title for page, shown in titled if shown is not page}
    return there.language.with_translations(titles)


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
