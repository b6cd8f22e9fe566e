"""`harness html [ID...]`: write pages as one HTML file, in which everything was run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, Lang, NoCache
from harness.cli.session import Session
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.pages.page import Page
    from harness.report.html.lesson import Lesson


def html(
    pages: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Breaks; by default those of the track."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")] = Path(
        "breaklab.html"
    ),
    everything: Annotated[bool, typer.Option("--all", help="All breaks of the catalogue.")] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the file in a browser.")
    ] = False,
    breaks: Breaks = None,
    lang: Lang = None,
    no_cache: NoCache = False,
) -> int:
    """Write breaks as one HTML file: predict, then watch the gradient go wrong, step by step."""
    session = Session(breaks, lang=lang, cached=not no_cache, explain=True)
    if pages and everything:
        raise UsageError("--all cannot be combined with ids", "leave one of them out")
    chosen = _chosen(session, pages or (), everything=everything)
    session.show_mistakes()
    write_lessons(session, chosen, out)
    session.console.print(str(out), soft_wrap=True)
    if session.is_interactive and not no_open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0


def write_lessons(session: Session, pages: Sequence[Page], out: Path) -> None:
    """Run pages and write them to a file. Raises what `require_lessons` raises."""
    from harness.core.files import write_file

    require_lessons(pages, out)
    write_file(out, session.run(lambda: _document(session, pages)))


def require_lessons(pages: Sequence[Page], out: Path) -> None:
    """Raise UsageError for a whole training, EnvironmentProblem if nothing can be written."""
    from harness.pages.front_matter import TrainingBreak
    from harness.report.files import html_room, require_writable

    for page in pages:
        if isinstance(page.front, TrainingBreak):
            raise UsageError(
                message("`{page}` has no probes: it changes a whole training run", page=page.id),
                message("harness break {page}", page=page.id),
            )
    require_writable(out)
    html_room("document")


def _chosen(session: Session, ids: Sequence[str], *, everything: bool) -> list[Page]:
    """Return the breaks to write."""
    from harness.pages.front_matter import Break

    if not ids:
        catalogue = session.catalogue
        pages = catalogue.valid_pages() if everything else map(catalogue.page, catalogue.track)
        return [page for page in pages if isinstance(page.front, Break)]
    return [session.page(page_id, "break") for page_id in dict.fromkeys(ids)]


def _document(session: Session, pages: Sequence[Page]) -> str:
    from harness.report.html.document import document

    lessons = [_lesson(session, page) for page in pages]
    title = lessons[0].page.title if len(lessons) == 1 else session.console.say("The lab")
    return document(title, lessons, session.language)


def _lesson(session: Session, page: Page) -> Lesson:
    from harness.experiment.recording import record
    from harness.report.html.lesson import Lesson

    recorded = record(page, session.catalogue, session.engine, session.baseline, session.variant)
    shown = session.translated(page)
    return Lesson(recorded, shown, session.console.say, session.place(page))
