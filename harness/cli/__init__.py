"""The command line: a thin face of the lab.

Exit status: 0 as the page says; 1 not as the page says; 2 usage; 3 the environment. Errors are one
message on standard error with the remedy. The road is imported inside the commands that travel it,
so that `harness --help` and `harness list` start at once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.core.errors import BreaklabError, DoesNotApply, EnvironmentProblem, UsageError
from harness.sandbox.signals import Terminated, end_on_request

if TYPE_CHECKING:
    from harness.check.draft import Given
    from harness.check.pages import PageCheck
    from harness.core.report import Report
    from harness.engines.engine import Engine
    from harness.experiment.cached import CachedReport
    from harness.experiment.lab import Experiment
    from harness.matrix.evaluation import Evaluations
    from harness.matrix.plan import Plan
    from harness.matrix.records import Matrix
    from harness.pages.catalogue import Catalogue
    from harness.pages.page import Page
    from harness.report.language import Language
    from harness.report.terminal import Screen
    from harness.runs.store import Store
    from harness.training.experiment import TrainingExperiment


def _end(status: int) -> None:
    """What every command returns is the exit status."""
    raise typer.Exit(status)


app = typer.Typer(
    result_callback=_end,
    name="harness",
    help="Break an autodiff engine on purpose, predict what happens, and see who notices.",
    epilog="With --traceback, any command shows where an error comes from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

PageId = Annotated[str, typer.Argument(metavar="ID", help="A page's id; `harness list` has them.")]
Breaks = Annotated[
    list[Path] | None,
    typer.Option("--breaks", metavar="DIR", help="A folder of further pages; may be repeated."),
]
Variant = Annotated[
    str | None,
    typer.Option("--on", metavar="VARIANT", help="Put the break into this variant of the engine."),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Another engine: `module:Class`, `path/to/tensor.py:Class`, or a harness.toml.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run everything anew, and keep nothing.")]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang", metavar="CODE", help="Read in this language, `es`; else the locale decides."
    ),
]
Probes = Annotated[
    list[str] | None,
    typer.Option("--probe", metavar="NAME", help="Run only this probe; may be repeated."),
]


@app.command("list")
def list_pages(
    engine: EngineName = None,
    breaks: Breaks = None,
    json: Json = False,
    probes: Annotated[
        bool, typer.Option("--probes", help="List the probes that pages share instead.")
    ] = False,
    track: Annotated[
        bool, typer.Option("--track", help="List the pages that a beginner takes in order.")
    ] = False,
) -> int:
    """List every break, variant, myth and exercise, or the probes that they share."""
    if probes:
        return _list_probes(_catalogue(breaks), json)
    if track:
        return _list_track(_catalogue(breaks), json)
    pages, mistakes = _catalogue(breaks).pages()
    if engine:
        pages = _applicable(pages, _engine(engine))
    if json:
        _print_json({"schema": 1, "pages": [_list_entry(page) for page in pages]})
    else:
        from harness.report.terminal import open_console, show_list

        show_list(open_console(), pages)
    for mistake in mistakes:
        _complain(mistake)
    return 2 if mistakes else 0


@app.command()
def show(
    page: PageId,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="Show the answer of an exercise as well.")
    ] = False,
) -> int:
    """Read a page in the terminal; an exercise without its answer."""
    catalogue = _catalogue(breaks)
    found = catalogue.page(page)
    language = _language(catalogue, lang, json)
    shown = _in_language(catalogue, found, language)
    is_translated = shown is not found
    if found.front.kind == "exercise" and not answer:
        from harness.grade.exercise import without_answer

        shown = without_answer(shown, found)
    if json:
        _print_json({"schema": 1, **_list_entry(shown), "markdown": shown.body})
    else:
        from harness.report.terminal import open_console, show_page

        show_page(open_console(language=language), shown, translated=is_translated)
    if engine and not json:
        from harness.report.terminal import show_diff

        experiment = _experiment(catalogue, page, None, engine)
        show_diff(open_console(language=language), experiment.diff, experiment.sites)
    return 0


@app.command()
def diff(
    page: PageId,
    engine: EngineName = None,
    on: Variant = None,
    breaks: Breaks = None,
    json: Json = False,
) -> int:
    """Show what a page changes in the engine's own code."""
    from harness.report.terminal import open_console, show_diff

    catalogue = _catalogue(breaks)
    many = catalogue.page(page).front.recipe
    experiment = (_training if many else _experiment)(catalogue, page, on, engine)
    if json:
        sites, text = experiment.sites, experiment.diff
        _print_json({"schema": 1, "break": page, "sites": sites, "diff": text})
    else:
        show_diff(open_console(), experiment.diff, experiment.sites)
    return 0


@app.command("break")
def break_engine(
    page: PageId,
    engine: EngineName = None,
    on: Variant = None,
    probe: Probes = None,
    breaks: Breaks = None,
    json: Json = False,
    no_predict: Annotated[
        bool, typer.Option("--no-predict", help="Do not ask for a prediction first.")
    ] = False,
    no_cache: NoCache = False,
    lang: Lang = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="How many, of a page that needs many (20)."),
    ] = None,
) -> int:
    """Put a break into the engine, in memory, and see what happens probe by probe."""
    catalogue = _catalogue(breaks)
    language = _language(catalogue, lang, json)
    predict = not (no_predict or json) and sys.stdin.isatty() and sys.stdout.isatty()
    found = catalogue.page(page)
    if found.front.recipe:
        if probe:
            raise UsageError(f"`{page}` has no probes: it is a whole training", "--seeds N")
        return _break_training(
            catalogue, page, on, engine, seeds, language, predict, json, not no_cache
        )
    if seeds is not None:
        raise UsageError(f"`{page}` does not need many seeds", "leave --seeds out")
    try:
        experiment, run = _kept_or_new(catalogue, found, on, engine, probe or (), not no_cache)
    except DoesNotApply:
        if json:
            _print_absence(found, on, engine)
        raise
    if json:
        report = run()
        _print_json(report)
    else:
        from harness.report.terminal import open_console

        shown = _in_language(catalogue, found, language)
        console = open_console(language=language)
        report = _break_on_terminal(console, shown, experiment, run, predict)
        if not report.engine.foreign:
            _say_what_is_next(console, catalogue, page)
    return 0 if report.agrees or report.engine.foreign else 1


@app.command()
def myth(page: PageId, breaks: Breaks = None, json: Json = False) -> int:
    """Read a claim from teaching material, and run the program that puts it to the test."""
    from harness.experiment.myth import run_myth
    from harness.report.myth import show_myth
    from harness.report.terminal import open_console

    report = run_myth(_catalogue(breaks).page(page, "myth"))
    if json:
        _print_json(report)
    else:
        show_myth(open_console(), report)
    if report.skipped:
        what, _, remedy = report.skipped.partition(": ")
        raise EnvironmentProblem(f"the program was not run: {what}", remedy)
    return 0 if report.agrees else 1


@app.command()
def exercise(
    page: PageId,
    probe: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Your probe, a Python file; it is judged."),
    ] = None,
    hints: Annotated[bool, typer.Option("--hints", help="Show the hints.")] = False,
    engine: EngineName = None,
    breaks: Breaks = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """See tests that a break passes, and write the probe that kills it."""
    from harness.experiment.baseline import Bench
    from harness.grade.exercise import run_exercise
    from harness.grade.submission import read_attempt
    from harness.report.exercise import show_attempt, show_exercise
    from harness.report.terminal import open_console
    from harness.runs.store import open_store

    catalogue = _catalogue(breaks)
    found = catalogue.page(page, "exercise")
    probes = read_attempt(probe) if probe else ()
    bench = Bench(open_store(not no_cache), explain=True)
    report = run_exercise(found, catalogue, _engine(engine), bench, probes)
    if json:
        _print_json(report)
    elif probes:
        show_attempt(open_console(), found, report, probes)
    else:
        show_exercise(open_console(), found, report, hints=hints)
    return 0 if (report.killed if probes else report.agrees) else 1


@app.command()
def check(
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Pages; all where none is named.")
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    training: Annotated[
        bool, typer.Option("--training", help="All pages that need many seeds, and only them.")
    ] = False,
    json: Json = False,
) -> int:
    """Hold pages against observation, on the engine and on every variant that they speak of."""
    from harness.check.pages import check_pages
    from harness.report.findings import show_check, show_left_out, show_summary
    from harness.report.terminal import open_console

    console, start, catalogue = open_console(), time.perf_counter(), _catalogue(breaks)
    if training and pages:
        remedy = "leave --training out: a page that is named is checked as it needs"
        raise UsageError(f"--training, and {pages[0]} is named", remedy)
    found = _engine(engine)
    if found.foreign and not training:
        return _compare(catalogue, found, pages or (), json)
    checks: list[PageCheck] = []
    for one in check_pages(catalogue, found, pages or (), training=training):
        checks.append(one)
        if not json:
            show_check(console, one)
    seconds = round(time.perf_counter() - start, 3)
    if json:
        entries = [_check_entry(one) for one in checks]
        reports = [report for one in checks for report in one.reports]
        _print_json({"schema": 1, "pages": entries, "reports": reports, "seconds": seconds})
    else:
        show_left_out(console, 0 if pages or training else len(catalogue.many_seeded))
        show_summary(console, checks, seconds)
    return max((one.exit_status for one in checks), default=0)


@app.command("new")
def new_page(
    page: Annotated[str, typer.Argument(metavar="ID", help="Its id: words joined by hyphens.")],
    family: Annotated[
        str | None, typer.Option(help="The folder it goes to: `broadcasting`.")
    ] = None,
    level: Annotated[int | None, typer.Option(help="1 (first lesson) to 3 (expert).")] = None,
    kind: Annotated[str | None, typer.Option(help="break, variant, myth or exercise.")] = None,
    scope: Annotated[
        str | None,
        typer.Option(help="Where the patch looks: `add.vjp`; the whole engine if empty."),
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="CODE", help="The code as it is.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CODE", help="As it shall be.")] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option("--probe", metavar="NAME", help="Try it on this probe; may be repeated."),
    ] = None,
    breaks: Annotated[
        Path | None,
        typer.Option(
            "--breaks", metavar="DIR", help="Where your pages are; ./breaks if it exists."
        ),
    ] = None,
    engine: EngineName = None,
    json: Json = False,
) -> int:
    """Begin a page: the template for its kind, with what the lab observes."""
    from harness.check.draft import ask, choose_folder, read_draft
    from harness.check.template import next_steps, write_page

    given: Given = {
        "family": family,
        "level": level,
        "kind": kind,
        "scope": scope,
        "before": before,
        "after": after,
        "probes": probe or None,
    }
    folder = choose_folder(breaks)
    bundled = _catalogue(None)
    catalogue = _catalogue([folder]) if folder.is_dir() else bundled
    if not json and sys.stdin.isatty() and sys.stdout.isatty():
        given = ask(given, sorted({path.parent.name for path in catalogue.files.values()}))
    draft = read_draft(page, given)
    path, trouble = write_page(draft, folder, catalogue, _engine(engine))
    if json:
        _print_json({"schema": 1, "page": page, "path": str(path)})
    else:
        extra = folder.resolve() not in {root.resolve() for root in bundled.roots}
        print(next_steps(draft, path, extra, trouble))
    return 0


@app.command("matrix")
def show_kill_matrix(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Breaks; all where none is named.")
    ] = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="F", help="Only the breaks of this family.")
    ] = None,
    engine: EngineName = None,
    on: Variant = None,
    breaks: Breaks = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Expect from now on what is seen now.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown; - prints it.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Say of each break who catches it, with what and how.")
    ] = False,
    no_cache: NoCache = False,
    json: Json = False,
) -> int:
    """Try every break with every diagnostic: who catches what, and is it as committed."""
    from harness.matrix import verdict
    from harness.matrix.plan import plan_matrix
    from harness.report.findings import show_left_out
    from harness.report.matrix_markdown import write_markdown
    from harness.report.matrix_terminal import show_accepted, show_matrix
    from harness.report.terminal import open_console
    from harness.runs.store import open_store

    write_junit = _junit_writer() if junit else None
    catalogue = _catalogue(breaks)
    start, store = time.perf_counter(), open_store(not no_cache)
    found = _engine(engine, on)
    if found.foreign and accept:
        raise UsageError(f"nothing is committed for {found.name}", "leave --accept out")
    plan = plan_matrix(catalogue, found, on=on, ids=ids or (), family=family, cache=store)
    trials = _try_all(plan, store, kept=not no_cache)
    accepted = verdict.accept(plan, trials) if accept else None
    matrix = verdict.judge_matrix(plan, trials, time.perf_counter() - start)
    if json:
        _print_json(matrix)
    elif markdown != Path("-"):
        console = open_console()
        if accepted is not None:
            show_accepted(console, accepted)
        show_matrix(console, matrix, verbose=verbose)
        show_left_out(console, len(catalogue.many_seeded))
    if markdown:
        write_markdown(matrix, markdown)
    if junit and write_junit:
        write_junit(matrix, junit)
    return 0 if matrix.agrees or found.foreign else 1


@app.command()
def doctor(
    engine: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENGINE]", help="`module:Class`, `path/to/tensor.py:Class`, a harness.toml."
        ),
    ] = None,
    breaks: Breaks = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> int:
    """Try an engine unbroken: how it is built, what is wrong with it, which breaks apply."""
    from harness.doctor.diagnosis import diagnose
    from harness.engines.settings import nearest_settings
    from harness.experiment.baseline import Bench
    from harness.report.doctor import show_diagnosis
    from harness.report.terminal import open_console
    from harness.runs.store import open_store

    said = engine or nearest_settings(Path()) or "minigrad:Tensor"
    found = diagnose(str(said), _catalogue(breaks), Bench(open_store(not no_cache)))
    if json:
        _print_json(found)
    else:
        show_diagnosis(open_console(), found)
    return 0


def main() -> None:
    """Run the command line and end the process with its exit status."""
    end_on_request()
    # What is run here is small: NumPy's threads would spend their time waiting for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    traceback = "--traceback" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    try:
        app(arguments)
    except BreaklabError as error:
        if traceback:
            raise
        _complain(error)
        sys.exit(error.exit_status)


def _applicable(pages: Sequence[Page], engine: Engine) -> list[Page]:
    """The breaks that have a site in an engine."""
    from harness.experiment.lab import applies

    return [page for page in pages if page.front.kind == "break" and applies(page, engine)]


def _catalogue(breaks: list[Path] | None) -> Catalogue:
    from harness.pages.catalogue import open_catalogue

    return open_catalogue(breaks or ())


def _experiment(
    catalogue: Catalogue,
    page: str,
    variant: str | None,
    engine: str | None,
    probes: Sequence[str] = (),
) -> Experiment:
    from harness.experiment.lab import prepare

    found = catalogue.page(page)
    if found.front.kind == "myth":
        raise UsageError(
            f"`{page}` is a myth: it has a program, and no patch for the engine",
            f"`harness myth {page}` runs its program",
        )
    on = catalogue.page(variant, "variant") if variant else None
    return prepare(found, catalogue, _engine(engine, variant), variant=on, probes=probes)


def _engine(said: str | None, variant: str | None = None) -> Engine:
    """The engine that a command is about: the one named, that of a harness.toml, or minigrad."""
    from harness.engines.engine import find_engine
    from harness.engines.settings import nearest_settings

    named = said or nearest_settings(Path())
    if named is None:
        return find_engine()
    from harness.experiment.exploration import explore
    from harness.runs.store import open_store

    engine = explore(named, open_store()).engine
    if variant and engine.foreign:
        raise UsageError(
            f"--on {variant}: variants are rewrites of minigrad, and {engine.name} is not",
            "leave --on out, or --engine",
        )
    return engine


def _kept_or_new(
    catalogue: Catalogue,
    page: Page,
    variant: str | None,
    engine: str | None,
    probes: Sequence[str],
    keep: bool,
) -> tuple[Experiment | CachedReport, Callable[[], Report]]:
    """The experiment and how its report is had: from what was kept, or by a run that is kept."""
    from harness.experiment.cached import REPORTS, CachedReport, key_of_report
    from harness.runs.cache import open_cache

    cache, start = open_cache(keep), time.perf_counter()
    on = catalogue.page(variant, "variant") if variant else None
    key = key_of_report(page, catalogue, _engine(engine, variant), on, probes)
    if key and (cached := cache.get(REPORTS, [key]).get(key)):
        return cached, lambda: cached.with_seconds(time.perf_counter() - start)
    experiment = _experiment(catalogue, page.id, variant, engine, probes)

    def run() -> Report:
        from harness.experiment.baseline import Bench
        from harness.experiment.lab import run_lab

        report = run_lab(experiment, Bench(cache, explain=True))
        if key:
            cache.put(REPORTS, {key: CachedReport(report, experiment.probes)})
        return report

    return experiment, run


def _training(
    catalogue: Catalogue, page: str, variant: str | None, engine: str | None
) -> TrainingExperiment:
    from harness.engines.engine import find_engine
    from harness.training.experiment import prepare_training

    if engine is not None:
        raise UsageError(
            f"`{page}` is a whole training with minigrad's layers and optimizers",
            "leave --engine out",
        )
    on = catalogue.page(variant, "variant") if variant else None
    return prepare_training(catalogue.page(page), catalogue, find_engine(), variant=on)


def _break_training(
    catalogue: Catalogue,
    page: str,
    on: str | None,
    engine: str | None,
    seeds: int | None,
    language: Language,
    predict: bool,
    json: bool,
    keep: bool,
) -> int:
    from harness.report.terminal import open_console
    from harness.report.training import begin_training, show_training
    from harness.runs.store import open_store
    from harness.training.lab import choose_seeds, run_training

    chosen = choose_seeds(seeds)
    experiment = _training(catalogue, page, on, engine)
    shown = _in_language(catalogue, experiment.page, language)
    console = open_console(language=language)
    predicted = {} if json else begin_training(console, shown, experiment, predict)
    report = run_training(experiment, open_store(keep), chosen)
    if json:
        _print_json(report)
    else:
        show_training(console, shown, report, predicted)
    return 0 if report.agrees else 1


def _language(catalogue: Catalogue, code: str | None, json: bool) -> Language:
    """What is read on a terminal follows the locale; what programs read, only `--lang`."""
    from harness.report.language import open_language

    language = open_language("en" if json and code is None else code)
    return language.with_translations(catalogue.phrases(language.code))


def _in_language(catalogue: Catalogue, page: Page, language: Language) -> Page:
    """The page's translation; the page itself where there is none."""
    path = catalogue.translations(page.id).get(language.code)
    if path is None:
        return page
    from harness.pages.translation import translated  # slow to import, and English does without

    return translated(page, path)


def _break_on_terminal(
    console: Screen,
    page: Page,
    experiment: Experiment | CachedReport,
    run: Callable[[], Report],
    predict: bool,
) -> Report:
    from harness.report import terminal

    terminal.show_heading(console, page, experiment.engine)
    if predict:
        terminal.show_first_section(console, page)
    terminal.show_diff(console, experiment.diff, experiment.sites)
    predictions = {}
    if predict:
        from harness.cli.prediction import ask_predictions

        predictions = ask_predictions(console, experiment.probes)
    report = run()
    terminal.show_report(console, report, experiment.probes)
    if predictions:
        from harness.cli.prediction import show_score

        show_score(console, predictions, report)
    return report


def _say_what_is_next(console: Screen, catalogue: Catalogue, page: str) -> None:
    """After a page of the track, the one that follows."""
    track = list(catalogue.track)
    if page in track[:-1]:
        following = track[track.index(page) + 1]
        console.print(
            console.say("Next on the track: {command}", command=f"harness break {following}")
        )


def _compare(catalogue: Catalogue, engine: Engine, ids: Sequence[str], json: bool) -> int:
    """Breaks on a foreign engine beside what their pages say; a difference is no failure."""
    from harness.experiment.baseline import Bench
    from harness.experiment.comparison import breaks_for, compare_pages
    from harness.report.findings import show_compared
    from harness.report.terminal import open_console
    from harness.runs.store import open_store

    console, reports = open_console(), []
    bench = Bench(open_store(), diagnostics=())  # outcomes need none
    for report in compare_pages(breaks_for(catalogue, ids), catalogue, engine, bench):
        reports.append(report)
        if not json:
            show_compared(console, report)
    if json:
        _print_json({"schema": 1, "reports": reports})
    return 0


def _try_all(plan: Plan, store: Store, *, kept: bool) -> Evaluations:
    """Run the plan with a progress line; if it has to stop, say what was finished."""
    from harness.experiment.baseline import Bench
    from harness.matrix.evaluate import evaluate_all
    from harness.report.matrix_terminal import Progress

    with Progress(len(plan.entries)) as progress:
        try:
            return evaluate_all(plan, Bench(store, select=True), progress=progress.watch)
        except (KeyboardInterrupt, Terminated) as request:
            done = f"{progress.done} of {len(plan.entries)} pages were finished"
            on = " and are kept: the same command goes on from there" if kept else ""
            print(f"harness: stopped; {done}{on}", file=sys.stderr)
            if isinstance(request, Terminated):
                raise
            raise typer.Exit(130) from None


def _junit_writer() -> Callable[[Matrix, Path], None]:
    """What writes JUnit XML, asked for before anything runs."""
    try:
        from harness.report.junit import write_junit
    except ImportError:
        raise EnvironmentProblem(
            "JUnit XML is written by junitparser, which is not installed",
            "pip install 'breaklab[junit]'",
        ) from None
    return write_junit


def _print_absence(page: Page, variant: str | None, engine: str | None) -> None:
    from harness.experiment.lab import report_absence

    _print_json(report_absence(page, _engine(engine, variant), variant))


def _print_json(thing: object) -> None:
    from harness.report.json import to_json

    print(to_json(thing))


def _list_probes(catalogue: Catalogue, json: bool) -> int:
    from harness.report.terminal import open_console, show_probes

    shared = list(catalogue.shared_probes.values())
    if json:
        entries = [{"name": p.name, "kind": p.kind, "doc": p.doc, "path": p.path} for p in shared]
        _print_json({"schema": 1, "probes": entries})
    else:
        show_probes(open_console(), shared)
    return 0


def _list_track(catalogue: Catalogue, json: bool) -> int:
    from harness.report.terminal import open_console, show_track

    pages = [catalogue.page(page) for page in catalogue.track]
    if json:
        entries = [{**_list_entry(page), "idea": catalogue.track[page.id]} for page in pages]
        _print_json({"schema": 1, "track": entries})
    else:
        show_track(open_console(), pages, catalogue.track)
    return 0


def _list_entry(page: Page) -> dict[str, object]:
    front = page.front
    return {
        "id": front.id,
        "kind": front.kind,
        "family": front.family,
        "level": front.level,
        "title": page.title,
        "path": page.path,
    }


def _check_entry(check: PageCheck) -> dict[str, object]:
    return {
        "page": check.page,
        "path": check.path,
        "holds": check.exit_status == 0,
        "engines": [report.engine for report in check.reports],
        "findings": check.findings,
        "seconds": check.seconds,
    }


def _complain(error: BreaklabError) -> None:
    print(f"harness: {error}", file=sys.stderr)
