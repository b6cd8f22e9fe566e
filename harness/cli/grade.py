"""Grading untrusted test suites: one suite, those of a whole course, and the shards of a course.

`grade`, `cohort` and `merge` share the options that say how results are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from harness.cli.options import Breaks, EngineName, HtmlFile, HtmlLang, Json, NoCache, Only
from harness.cli.session import CommandSession, print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.sandbox.signals import Terminated

if TYPE_CHECKING:
    from harness.grade.feedback import Feedback, Grade
    from harness.grade.suite import SuiteReport, Weights
    from harness.report.grading import Format
    from harness.report.language import Language


def complete_format(incomplete: str) -> list[str]:
    """Return the formats that begin with what was typed, for the shell's completion."""
    from harness.report.grading import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_output(incomplete: str) -> list[str]:
    """Return the formats of `harness grade`, which also writes records."""
    return [*complete_format(incomplete), *([RECORD] if RECORD.startswith(incomplete) else ())]


def complete_feedback(incomplete: str) -> list[str]:
    """Return the levels of feedback that begin with what was typed."""
    from harness.grade.feedback import Feedback

    return [name for name in get_args(Feedback) if name.startswith(incomplete)]


RECORD = "record"
"""The format that `--from` reads."""

Selection = Annotated[
    str,
    typer.Option(
        "--select",
        metavar="SELECTION",
        help="Breaks: ids, family:NAME, unit:NAME, level:N, track or all, separated by commas.",
    ),
]
CorrectVariants = Annotated[
    list[str] | None,
    typer.Option(
        "--correct",
        metavar="VARIANT",
        help="A variant on which the tests must pass; may be repeated.",
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(
        "--seed", metavar="TEXT", help="The secret seed of the rewrites; do not publish it."
    ),
]
AllowConftest = Annotated[
    bool,
    typer.Option(
        "--allow-conftest/--no-conftest",
        help="Whether to include a submission's conftest.py files (the default).",
    ),
]
AllowCopy = Annotated[
    bool,
    typer.Option(
        "--allow-copy/--no-copy",
        help="Whether a submission may contain a copy of the engine (the default).",
    ),
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", metavar="SECONDS", min=1, help="The limit of processor time for one run."
    ),
]
FeedbackName = Annotated[
    str | None,
    typer.Option(
        "--feedback",
        metavar="LEVEL",
        autocompletion=complete_feedback,
        help="What is shown: `score`, `stage` or `names`; `stage` by default in formats for "
        "students, else `names`.",
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option("--weights", metavar="FILE", help="A TOML file: how much each break counts."),
]
Partial = Annotated[
    bool | None,
    typer.Option(
        "--partial/--no-partial",
        help="Grade without the tests that fail on a correct engine, and lower the score by their "
        "share of the tests; the default only in formats for students.",
    ),
]
ResultsFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder for the results.")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        autocompletion=complete_format,
        help="`text`, `json`, `html`, `junit`, `gradescope`, `prairielearn` or `sarif`.",
    ),
]


@dataclass(frozen=True)
class Results:
    """The choices made on the command line, checked before anything is graded."""

    session: CommandSession
    form: Format
    feedback: Feedback
    weights: Weights
    render: Callable[[Grade], str]
    partial: bool

    def disclosed(self, report: SuiteReport, *, to_student: bool) -> Grade:
        """Return what may be shown of the result of a suite, with its score."""
        from harness.grade.feedback import disclose

        titles = {page.id: page.title for page in self.session.catalogue.valid_pages()}
        engine = self.session.engine
        return disclose(
            report,
            self.feedback,
            self.weights,
            titles,
            engine.root if engine.name == report.engine else None,
            to_student=to_student,
            partial=self.partial,
        )

    def write(self, grade: Grade, file: Path) -> None:
        """Write a result to a file. Raises EnvironmentProblem if that is not possible."""
        from harness.core.files import write_file

        write_file(file, self.render(grade).rstrip("\n") + "\n")


def open_results(
    session: CommandSession,
    *,
    feedback: str | None = None,
    weights: Path | None = None,
    form: str | None = None,
    lang: str | None = None,
    partial: bool | None = None,
) -> Results:
    """Return the choices of a command; `lang` is the language of HTML.

    By default, a suite is graded partially in the formats for students.

    Raises UsageError for a value that does not exist or does not fit another one, PageError for a
    file of weights that cannot be read, and EnvironmentProblem for a library that is not installed.
    """
    from harness.grade.feedback import Feedback
    from harness.grade.suite import EVEN, read_weights
    from harness.report.grading import FOR_STUDENTS, FORMATS, default_feedback, renderer
    from harness.report.language import ENGLISH

    chosen = _choice("--format", form or "text", FORMATS)
    level = _choice("--feedback", feedback or default_feedback(chosen), get_args(Feedback))
    say = _language(session, lang) if chosen == "html" else ENGLISH
    render = renderer(chosen, level, say)
    pages = session.catalogue.valid_pages()
    stated = EVEN if weights is None else read_weights(weights, pages)
    partial = chosen in FOR_STUDENTS if partial is None else partial
    return Results(session, chosen, level, stated, render, partial)


def _language(session: CommandSession, code: str | None) -> Language:
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


# ----- `harness grade`: one suite, in any number of formats -----

_LARGEST_RECORD = 64 * 1024 * 1024


@dataclass(frozen=True)
class Output:
    """A format of the result, and the file for it; without a file, it is printed."""

    results: Results
    file: Path | None
    is_record: bool

    def show(self, report: SuiteReport, *, verbose: bool = False) -> None:
        """Print or write the result. Raises EnvironmentProblem if that is not possible."""
        if not self.is_record:
            show_result(self.results, report, self.file, verbose=verbose)
        elif self.file is None:
            print_json(report)
        else:
            from harness.core.files import PRIVATE, write_file
            from harness.report import to_json

            write_file(self.file, to_json(report) + "\n", PRIVATE)


def open_outputs(
    session: CommandSession,
    forms: Sequence[str],
    out: Path | None,
    *,
    feedback: str | None,
    weights: Path | None,
    lang: str | None,
    partial: bool | None,
) -> list[Output]:
    """Return what `--format FORMAT` and `--format FORMAT=FILE` ask for; `out` is for the former.

    Raises what `open_results` and `require_writable` raise, and UsageError for two formats without
    a file.
    """
    from harness.report import require_writable
    from harness.report.grading import FOR_STUDENTS, FORMATS

    chosen = [(name, Path(file) if file else None) for name, _, file in map(_parted, forms)]
    for name, _ in chosen:
        _choice("--format", name, (*FORMATS, RECORD))
    printed = [name for name, file in chosen if file is None]
    if len(printed) > 1:
        listed = ", ".join(printed)
        problem = message("several formats have no file: {formats}", formats=listed)
        raise UsageError(problem, "write `--format FORMAT=FILE` for all but one of them")
    if out is not None and not printed:
        problem = message("--out is for a format without a file, and every format has one")
        raise UsageError(problem, "leave --out out")
    if partial is None:
        partial = any(name in FOR_STUDENTS for name, _ in chosen)
    outputs = []
    for name, file in chosen:
        is_record = name == RECORD
        results = open_results(
            session,
            feedback="names" if is_record else feedback,
            weights=weights,
            form="json" if is_record else name,
            lang=lang,
            partial=partial,
        )
        outputs.append(Output(results, file or out, is_record))
    for output in outputs:
        if output.file is not None:
            require_writable(output.file)
    return outputs


def _parted(form: str) -> tuple[str, str, str]:
    return form.partition("=")


def _read_record(file: Path) -> SuiteReport:
    """Return the result in a file. Raises UsageError if there is none."""
    import msgspec

    from harness.core import read_bytes
    from harness.grade.suite import SuiteReport

    try:
        return msgspec.json.decode(read_bytes(file, _LARGEST_RECORD), type=SuiteReport)
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = message("{file} is not a record of a grading: {error}", file=file, error=error)
        raise UsageError(problem, "write one with `--format record=FILE`") from None


def grade(
    suite: Annotated[
        Path | None,
        typer.Argument(metavar="SUITE", help="A file with tests, or a folder of them."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Grade nothing, and show the result that `--format record=FILE` has written.",
        ),
    ] = None,
    select: Selection = "all",
    only: Only = None,
    correct: CorrectVariants = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Seed = None,
    allow_conftest: AllowConftest = True,
    allow_copy: AllowCopy = True,
    limit: Limit = 20,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    partial: Partial = None,
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT[=FILE]",
            autocompletion=complete_output,
            help="`text`, `json`, `html`, `junit`, `gradescope`, `prairielearn`, `sarif`, or "
            "`record` for `--from`; may be repeated, with a file each.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the format that has no file of its own to this."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="List all breaks that are not killed.")
    ] = False,
    lang: HtmlLang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Run a suite on correct engines and on every break, confined, as its author is unknown."""
    from dataclasses import replace

    from harness.grade.grading import grade_suite, require_suite
    from harness.grade.plan import LIMITS, plan_grading
    from harness.report.terminal import ProgressBar
    from harness.sandbox.fork import require_fork

    if (suite is None) == (record is None):
        raise UsageError(
            "name a suite, or a record with --from",
            "`harness grade SUITE`, or `harness grade --from FILE`",
        )
    if suite is not None:
        require_fork(message("grading tests"))
        require_suite(suite)
    session = CommandSession(
        [*(breaks or ()), *(only or ())], engine, json=json, cached=not no_cache
    )
    if json and form not in (None, ["json"]):
        problem = message("--json cannot be combined with --format {form}", form=form[0])
        raise UsageError(problem, "leave one of them out")
    forms = ["json"] if json else form or ["text"]
    outputs = open_outputs(
        session,
        forms,
        out,
        feedback=feedback,
        weights=weights,
        lang=lang,
        partial=partial,
    )
    chosen = outputs[0].results
    if record is not None:
        return _show(outputs, _read_record(record), verbose=verbose)
    assert suite is not None
    plan = plan_grading(
        session.catalogue,
        session.engine,
        session.cache,
        selection=_selection(session, select, only or ()),
        correct=correct,
        seed=seed.encode() if seed is not None else None,
        limits=replace(LIMITS, cpu_seconds=limit, seconds=3.0 * limit),
        allow_conftest=allow_conftest,
        stages=any(output.results.feedback != "score" for output in outputs),
        partial=chosen.partial or any(output.is_record for output in outputs),
        allow_copy=allow_copy,
    )
    chosen.weights.require_some(mutant.page for mutant in plan.breaks)
    with ProgressBar() as bar:
        report = grade_suite(suite, plan, bar.watch)
    return _show(outputs, report, verbose=verbose)


def _show(outputs: Sequence[Output], report: SuiteReport, *, verbose: bool) -> int:
    """Show a result in every format; return the exit status."""
    for output in outputs:
        output.show(report, verbose=verbose)
    is_graded = report.gradable or (outputs[0].results.partial and report.graded_in_part)
    return 0 if is_graded else 1


def _selection(session: CommandSession, select: str, only: Sequence[Path]) -> str:
    """Return the selection of the breaks, or of those in some folders. Raises UsageError."""
    from harness.pages.front_matter import Break

    if not only:
        return select
    if select != "all":
        raise UsageError("--only cannot be combined with --select", "leave one of them out")
    catalogue = session.catalogue
    inside = catalogue.ids_in(only)
    pages = [page for page in catalogue.valid_pages() if page.id in inside]
    breaks = [page.id for page in pages if isinstance(page.front, Break)]
    if not breaks:
        folders = ", ".join(map(str, only))
        problem = message("there is no break in {folders}", folders=folders)
        raise UsageError(problem, "`harness new` writes one")
    return ",".join(breaks)


def show_result(
    results: Results, report: SuiteReport, out: Path | None = None, *, verbose: bool = False
) -> None:
    """Print the result of a suite, or write it to a file.

    Raises EnvironmentProblem if the file cannot be written.
    """
    from harness.report.grading import FOR_INSTRUCTORS, text

    shown = results.disclosed(report, to_student=results.form not in FOR_INSTRUCTORS)
    if out is not None:
        results.write(shown, out)
    elif results.form == "text":
        console = results.session.console
        for line in text.lines(shown, verbose, console.width):
            console.out(line, highlight=False)
    else:
        print(results.render(shown).rstrip("\n"))


# ----- `harness cohort`: the suites of a course -----


def cohort(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Every file and folder in it is graded as a submission."
        ),
    ],
    out: ResultsFolder,
    select: Selection = "all",
    correct: CorrectVariants = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    seed: Seed = None,
    allow_conftest: AllowConftest = True,
    allow_copy: AllowCopy = True,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again",
            metavar="NAME",
            help="Grade this submission even if it has a result; may be repeated.",
        ),
    ] = None,
    limit: Limit = 20,
    submission_limit: Annotated[
        float,
        typer.Option(
            "--submission-limit",
            metavar="SECONDS",
            min=1.0,
            help="The time limit for one submission.",
        ),
    ] = 1800.0,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="The number of processes; by default one per core.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="K/N", help="Grade only this share of the submissions."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS", help="Grade on the cluster of this scheduler."),
    ] = None,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    partial: Partial = None,
    form: FormatName = None,
    html: HtmlFile = None,
    lang: HtmlLang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Grade the test suites of a whole course; the same command continues where it was stopped."""
    from harness.grade.cohort.grader import SuiteOptions
    from harness.grade.cohort.results import WHOLE, parse_shard
    from harness.grade.cohort.run import grade_cohort, local_pool
    from harness.grade.mutants import select as selected
    from harness.report.cohort import CohortProgress
    from harness.sandbox.confinement import namespaces_available
    from harness.sandbox.fork import require_fork
    from harness.sandbox.hosts import not_granted
    from harness.sandbox.parallel import available_cores

    require_fork("harness cohort")
    session = CommandSession(breaks, engine, json=json, cached=not no_cache)
    results = open_results(
        session, feedback=feedback, weights=weights, form=form, lang=lang, partial=partial
    )
    _require_page(html)
    results.weights.require_some(selected(session.catalogue, select))
    options = SuiteOptions(
        breaks=[str(path.resolve()) for path in breaks or ()],
        engine=_engine_argument(engine),
        selection=select,
        correct=correct,
        allow_conftest=allow_conftest,
        allow_copy=allow_copy,
        limit=limit,
        cached=not no_cache,
        hidden=[str(folder.resolve()), str(out.resolve())],
    )
    share = parse_shard(shard) if shard else WHOLE
    pool = local_pool(workers or available_cores(), submission_limit)
    if dask:
        from harness.grade.cohort.dask_pool import dask_pool

        pool = dask_pool(dask, submission_limit)
    elif not namespaces_available():  # only the processes of the pool have noticed it
        not_granted.add("namespaces")
    with CohortProgress() as progress:
        try:
            roster = grade_cohort(
                folder,
                out,
                options.opening,
                pool,
                shard=share,
                seed=seed.encode() if seed is not None else None,
                again=again or (),
                progress=progress.watch,
            )
        except (KeyboardInterrupt, Terminated) as request:
            _say_how_to_continue(progress.done, progress.total)
            if isinstance(request, Terminated):
                request.reported = True
                raise
            raise typer.Exit(130) from None
    if share.of > 1:
        print(f"All {progress.total} submissions of shard {shard} are graded.")
        print(f"next, with all {share.of} shards: harness merge {out} ... --out DIR")
        return 0
    return show_cohort(
        out, roster, results, feedback=bool(feedback or form), html=html, lang=lang, again=again
    )


def _engine_argument(name: str | None) -> str | None:
    """Return an engine's name so that it means the same in any folder; None for minigrad."""
    from harness.engines import nearest_settings

    if name is None:
        settings = nearest_settings(Path())
        return None if settings is None else str(settings)
    file, colon, rest = name.partition(":")
    return f"{Path(file).resolve()}{colon}{rest}" if Path(file).is_file() else name


def _say_how_to_continue(done: int, total: int) -> None:
    rest = " and stored: the same command continues from there"
    print(f"harness: stopped; {done} of {total} submissions are graded{rest}", file=sys.stderr)


def _require_page(html: Path | None) -> None:
    """Raise EnvironmentProblem if no HTML file can be written there."""
    if html:
        from harness.report import html_room, require_writable

        require_writable(html)
        html_room("reports")


def show_cohort(
    out: Path,
    roster: Mapping[str, str],
    results: Results,
    *,
    feedback: bool,
    html: Path | None = None,
    lang: str | None = None,
    again: Iterable[str] | None = None,
) -> int:
    """Write and print the results; return 3 if the grader failed at one, and otherwise 0.

    With `feedback`, also write what each author may see. `html` is the file for the class page, and
    `again` names the submissions that were to be graded again.
    """
    from harness.core.files import PRIVATE, write_file
    from harness.grade.cohort.tally import tally
    from harness.report.cohort import as_table, regraded, summary, to_csv, to_markdown

    result = tally(out, roster, results.weights, partial=results.partial)
    if result.missing:
        names = ", ".join(result.missing[:3]) + (" ..." if len(result.missing) > 3 else "")
        problem = message(
            "{count} of {total} submissions have no result: {names}",
            count=len(result.missing),
            total=len(roster),
            names=names,
        )
        remedy = "grade the shards that they belong to, and merge all of them again"
        raise UsageError(problem, remedy)
    write_file(out / "scores.csv", to_csv(result), PRIVATE)
    write_file(out / "missed.md", to_markdown(result), PRIVATE)
    files = ["scores.csv", "missed.md"]
    if feedback:
        files.append(f"feedback/ ({_write_feedback(out, roster, results)} files)")
    if html:
        from harness.report import html_room

        say = _language(results.session, lang)
        titles = {page.id: page.title for page in results.session.catalogue.valid_pages()}
        write_file(html, html_room("reports").cohort_page(result, titles, say), PRIVATE)
    if results.session.json:
        print_json(as_table(result))
    else:
        for name in again or ():
            if scores := result.history.get(name):  # none if the grader failed
                print(regraded(name, scores))
        for line in summary(result):
            print(line)
        print(f"Written to {out}: {', '.join(files)}")
    if result.failed:
        print(
            f"harness: the grader failed at {len(result.failed)} of them; "
            "the same command tries these again",
            file=sys.stderr,
        )
    return 3 if result.failed else 0


def _write_feedback(out: Path, roster: Mapping[str, str], results: Results) -> int:
    """Write a file for each submission, and return their number. Raises EnvironmentProblem."""
    from harness.grade.cohort.results import feedback_file
    from harness.grade.cohort.tally import results_in
    from harness.report.grading import SUFFIXES

    written = 0
    for result in results_in(out, roster):
        file = feedback_file(out, result.submission, SUFFIXES[results.form])
        results.write(results.disclosed(result.report, to_student=True), file)
        written += 1
    return written


# ----- `harness merge`: the shards of a course -----


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="The folders with their results.")
    ],
    out: ResultsFolder,
    engine: EngineName = None,
    breaks: Breaks = None,
    feedback: FeedbackName = None,
    weights: WeightsFile = None,
    partial: Partial = None,
    form: FormatName = None,
    html: HtmlFile = None,
    lang: HtmlLang = None,
    json: Json = False,
) -> int:
    """Merge the results of the shards of a cohort."""
    from harness.grade.cohort.results import merge as merge_shards

    session = CommandSession(breaks, engine, json=json)
    results = open_results(
        session, feedback=feedback, weights=weights, form=form, lang=lang, partial=partial
    )
    _require_page(html)
    roster = merge_shards(folders, out)
    return show_cohort(out, roster, results, feedback=bool(feedback or form), html=html, lang=lang)
