"""`harness new ID`: start a page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import EngineName, Json
from harness.cli.session import Session, complain, print_json
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.check.template import Options


def new_page(
    page: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the page: words joined by hyphens.")
    ],
    family: Annotated[
        str | None, typer.Option(help="The folder of the page, such as `broadcasting`.")
    ] = None,
    level: Annotated[int | None, typer.Option(help="1 (first lesson) to 3 (expert).")] = None,
    kind: Annotated[str | None, typer.Option(help="break, variant, myth or exercise.")] = None,
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
) -> int:
    """Start a page from the template for its kind, with the observed outcomes as comments."""
    from harness.check.template import Draft, next_steps, read_draft, rewrite_page, write_page

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
    bundled_roots = Session().catalogue.roots
    session = Session([folder] if folder.is_dir() else (), engine, json=json)
    if again:
        _refuse_options(options)
        written, error = rewrite_page(page, probe or (), folder, session)
        front, path = written.front, Path(written.path)
        draft = Draft(front.id, front.family, front.kind, front.level)
    else:
        if session.is_interactive:
            families = {path.parent.name for path in session.catalogue.files.values()}
            options = _prompt(page, options, sorted(families))
        draft = read_draft(page, options)
        path, error = write_page(draft, folder, session)
    if json:
        problem = {"problem": error.problem, "remedy": error.remedy} if error else {}
        print_json({"schema": 1, "page": page, "path": str(path), **problem})
    else:
        bundled = folder.resolve() in {root.resolve() for root in bundled_roots}
        print(next_steps(draft, path, None if bundled else folder, error, engine))
    return error.exit_status if error else 0


def _refuse_options(options: Options) -> None:
    """Raise UsageError for an option that describes a new page."""
    for name, value in options.items():
        if value is not None and name != "probes":
            remedy = message("edit the page, and leave --{name} out", name=name)
            raise UsageError(message("--{name} cannot be combined with --again", name=name), remedy)


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


def _prompt(page: str, options: Options, families: Iterable[str]) -> Options:
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

    question("kind", "Kind (break, variant, myth, exercise)", "break")
    question("family", f"Family, the folder of the page ({', '.join(families)}, ...)", None)
    question("level", "Level, 1 (first lesson) to 3 (expert)", 1, int)
    if answers["kind"] not in ("myth", "exercise"):
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
