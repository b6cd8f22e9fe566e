"""Writing pages: `harness new` starts one, and `harness check` checks that pages are true."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Breaks, EngineName, ErrorLang, Json, Only
from harness.cli.session import CommandSession, collision_problem, complain, print_json
from harness.core.errors import UsageError
from harness.core.message import message
from harness.report.language import open_language

if TYPE_CHECKING:
    from harness.check import Finding
    from harness.check.pages import PageCheck
    from harness.check.template import DraftHunk, Options
    from harness.core.report import Report
    from harness.pages.page import Page


def new_page(
    page: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the page: words joined by hyphens.")
    ],
    family: Annotated[
        str | None, typer.Option(help="The folder of the page, such as `broadcasting`.")
    ] = None,
    level: Annotated[int | None, typer.Option(help="1 (first lesson) to 3 (expert).")] = None,
    kind: Annotated[
        str | None, typer.Option(help="break, variant, myth, exercise or operator.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="Where the patch applies, such as `add.vjp`; by default everywhere.",
        ),
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="The original code; may be repeated for more hunks."),
    ] = None,
    after: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="The changed code.")
    ] = None,
    from_diff: Annotated[
        Path | None,
        typer.Option(
            "--from-diff", metavar="FILE", help="A fix as a unified diff: the patch undoes it."
        ),
    ] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option("--probe", metavar="NAME", help="Run this probe on it; may be repeated."),
    ] = None,
    breaks: Annotated[
        Path | None,
        typer.Option(
            "--breaks", metavar="DIR", help="The folder of your pages; ./breaks if it exists."
        ),
    ] = None,
    engine: EngineName = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Observe an existing page again after its patch was edited."),
    ] = False,
    json: Json = False,
    lang: ErrorLang = None,
) -> int:
    """Start a page from the template for its kind, with the observed outcomes as comments."""
    from harness.check.fix import read_fix
    from harness.check.template import Draft, next_steps, read_draft, rewrite_page, write_page

    open_language(lang)  # which refuses an unknown one
    options: Options = {
        "family": family,
        "level": level,
        "kind": kind,
        "scope": scope or None,
        "before": before or None,
        "after": after or None,
        "probes": probe or None,
    }
    folder = _choose_folder(breaks)
    bundled_roots = CommandSession().catalogue.roots
    session = CommandSession([folder] if folder.is_dir() else (), engine, json=json)
    left_out: list[str] = []
    if again:
        _refuse_options({**options, "from-diff": from_diff})
        written, error = rewrite_page(page, probe or (), folder, session)
        front, path = written.front, Path(written.path)
        draft = Draft(front.id, front.family, front.kind, front.level)
    else:
        if session.is_interactive:
            families = {path.parent.name for path in session.catalogue.files.values()}
            options = _prompt(page, options, sorted(families), with_code=from_diff is None)
        hunks: Sequence[DraftHunk] = ()
        if from_diff is not None:
            _refuse_beside_diff(options)
            fix = read_fix(from_diff, as_operator=options["kind"] == "operator")
            hunks, left_out = fix.hunks, [str(reason) for reason in fix.left_out]
        draft = read_draft(page, options, hunks)
        path, error = write_page(draft, folder, session)
    if json:
        problem = {"problem": error.problem, "remedy": error.remedy} if error else {}
        skipped = {"left_out": left_out} if from_diff else {}
        print_json({"schema": 1, "page": page, "path": str(path), **problem, **skipped})
    else:
        for reason in left_out:
            print(f"left out: {reason}")
        bundled = folder.resolve() in {root.resolve() for root in bundled_roots}
        print(next_steps(draft, path, None if bundled else folder, error, engine))
    return error.exit_status if error else 0


def _refuse_options(options: Options) -> None:
    """Raise UsageError for an option that describes a new page."""
    for name, value in options.items():
        if value is not None and name != "probes":
            remedy = message("edit the page, and leave --{name} out", name=name)
            raise UsageError(message("--{name} cannot be combined with --again", name=name), remedy)


def _refuse_beside_diff(options: Options) -> None:
    """Raise UsageError for an option that describes code, which the diff does."""
    for name in ("before", "after", "scope"):
        if options[name] is not None:
            problem = message("--{name} cannot be combined with --from-diff", name=name)
            raise UsageError(problem, "leave it out, and edit the patch in the page afterwards")
    if options["kind"] in ("myth", "exercise"):
        problem = message("--kind {kind} has no patch", kind=options["kind"])
        raise UsageError(problem, "use --kind break, variant or operator with --from-diff")


def _choose_folder(folder: Path | None) -> Path:
    """Return the folder that pages are written to, by default `./breaks`.

    Raises UsageError if there is no such folder, or it is a file.
    """
    if folder is None and not Path("breaks").is_dir():
        raise UsageError(
            "--breaks is missing, and the folder ./breaks does not exist",
            "name a folder for your pages: `--breaks my-breaks`; it will be created",
        )
    folder = folder or Path("breaks")
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            message("{folder} is not a folder", folder=folder), "--breaks takes a folder of pages"
        )
    return folder


def _prompt(
    page: str, options: Options, families: Iterable[str], *, with_code: bool = True
) -> Options:
    """Prompt for every option that is not set; Enter takes the default.

    After an invalid answer, asks again. Raises UsageError if the id or an option is invalid.
    """
    from harness.check.template import Draft

    answers = dict(options)

    def check() -> None:
        checked = {name: answers[name] for name in ("family", "kind", "level")}
        known = {name: value for name, value in checked.items() if value is not None}
        Draft(page, **{"family": "any"} | known)

    def question(name: str, text: str, default: Any = "", kind: type = str) -> None:
        while answers[name] is None:
            show_default = default not in ("", None)
            answers[name] = typer.prompt(text, default, show_default=show_default, type=kind)
            try:
                check()
            except UsageError as error:
                complain(error)
                answers[name] = None

    check()

    question("kind", "Kind (break, variant, myth, exercise, operator)", "break")
    question("family", f"Family, the folder of the page ({', '.join(families)}, ...)", None)
    question("level", "Level, 1 (first lesson) to 3 (expert)", 1, int)
    if with_code and answers["kind"] not in ("myth", "exercise"):
        question(
            "before", "The original code, in one line (Enter: I will write the patch in the page)"
        )
    if answers["before"]:
        question("after", "The changed code")
        question("scope", "Scope, such as add.vjp (Enter: the whole engine)")
        for name in ("before", "after", "scope"):
            if isinstance(answers[name], str):
                answers[name] = [answers[name]]
        question(
            "probes", "Probes, separated by spaces (Enter: propose those that run the changed code)"
        )
        if isinstance(answers["probes"], str):
            answers["probes"] = answers["probes"].replace(",", " ").split()
    return answers


# ----- `harness check` -----


def check(
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Pages; all by default.")
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    only: Only = None,
    training: Annotated[
        bool, typer.Option("--training", help="Check only the pages that need many seeds.")
    ] = False,
    json: Json = False,
    lang: ErrorLang = None,
) -> int:
    """Check that pages are true, on the engine and on every variant that they name."""
    start = time.perf_counter()
    open_language(lang)  # which refuses an unknown one
    if collision := collision_problem():
        raise collision
    session = CommandSession([*(breaks or ()), *(only or ())], engine, json=json, strict=False)
    with session.busy():
        from harness.check import worst
        from harness.check.pages import check_pages
        from harness.report.pages import show_left_out, show_summary

    if pages and only:
        remedy = "leave --only out, and name its folder with --breaks"
        raise UsageError(
            message("--only cannot be combined with a page ({page})", page=pages[0]), remedy
        )
    if training and pages:
        remedy = "leave --training out: pages that you name are always checked"
        raise UsageError(
            message("--training cannot be combined with a page ({page})", page=pages[0]), remedy
        )
    ids = tuple(dict.fromkeys(pages or ()))
    if session.engine.foreign and not training:
        return _check_on_engine(session, ids, only or ())
    checks: list[PageCheck] = []
    checking = check_pages(session, ids, training=training, only=only or ())
    for checked in session.each(checking):
        checks.append(checked)
        if not json:
            session.show(checked)
    seconds = round(time.perf_counter() - start, 3)
    if json:
        _print_checks(checks, seconds)
    else:
        if not (pages or training):
            show_left_out(session.console, session.catalogue, only or ())
        show_summary(session.console, checks, seconds)
    return worst(checked.exit_status for checked in checks)


def _print_checks(checks: Sequence[PageCheck], seconds: float) -> None:
    reports = [report for checked in checks for report in checked.reports]
    print_json({"schema": 1, "pages": _entries(checks), "reports": reports, "seconds": seconds})


def _entries(checks: Sequence[PageCheck]) -> list[dict[str, object]]:
    return [
        {
            "page": checked.page,
            "path": checked.path,
            "holds": checked.holds,
            "engines": [report.engine for report in checked.reports],
            "findings": checked.findings,
            "seconds": checked.seconds,
        }
        for checked in checks
    ]


def _check_on_engine(session: CommandSession, ids: Sequence[str], only: Sequence[Path]) -> int:
    """Check the pages about a foreign engine, and compare the breaks about minigrad with it.

    A difference from a page about minigrad is a failure only if it shows that a patch is not the
    change that its page means.
    """
    from harness.check import worst
    from harness.check.pages import check_page
    from harness.experiment.lab import breaks_for
    from harness.report.pages import show_nothing_judged

    catalogue, name = session.catalogue, session.engine.name
    inside = catalogue.ids_in(only) if only else catalogue.files.keys()
    chosen = [catalogue.page(page_id) for page_id in ids] or catalogue.valid_pages()
    own = [page.id for page in chosen if page.is_about(name) and page.id in inside]
    checks: list[PageCheck] = []
    for checked in session.each(check_page(page_id, session) for page_id in own):
        checks.append(checked)
        if not session.json:
            session.show(checks[-1])
    others = [page_id for page_id in ids if page_id not in own]
    pages = breaks_for(catalogue, others) if others or not ids else []
    pages = [page for page in pages if page.id in inside and page.id not in own]
    if not (pages or own):
        folders = ", ".join(map(str, only))
        raise UsageError(
            message("no break to compare in {folders}", folders=folders), "`harness new` writes one"
        )
    reports, findings = _compare(session, pages, ids)
    if session.json:
        entries = {"pages": _entries(checks)} if checks else {}
        found = [*(finding for check in checks for finding in check.findings), *findings]
        print_json({"schema": 1, **entries, "reports": reports, "findings": found})
    judged = bool(checks) or any(report.judged for report in reports)
    if not (judged or session.json):
        show_nothing_judged(session.console, name)
    statuses = [check.exit_status for check in checks]
    statuses += [found.exit_status for found in findings]
    return worst([*statuses, 0 if judged else 1])


def _compare(
    session: CommandSession, pages: Sequence[Page], ids: Sequence[str]
) -> tuple[list[Report], list[Finding]]:
    """Compare what pages about minigrad state with what happens on another engine."""
    from harness.check.expectations import check_on_engine
    from harness.experiment.baseline import OpenContext
    from harness.experiment.lab import compare_pages
    from harness.report.pages import show_absent, show_comparison

    reports: list[Report] = []
    findings: list[Finding] = []
    baseline = session.baseline.bare()  # outcomes do not need diagnostics
    context = OpenContext(session.catalogue, session.engine, baseline)
    for page, report in zip(pages, session.each(compare_pages(pages, context)), strict=True):
        reports.append(report)
        new = list(check_on_engine(page, report, named=page.id in ids))
        findings += new
        if not session.json and (report.headline != "does-not-apply" or new or ids):
            show_comparison(session.console, report, new)
    absent = sum(report.headline == "does-not-apply" for report in reports)
    if absent and not (session.json or ids):
        show_absent(session.console, absent)
    return reports, findings
