"""Pages as HTML in which everything was run: one file, or the whole course as a site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, Lang, NoCache, require_one
from harness.cli.session import CommandSession
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.experiment.lab import Recorded
    from harness.pages.page import Page
    from harness.report.html.lesson import Lesson

LESSONS = ("break", "myth", "exercise")
"""The kinds of pages that a site lists."""


def html(
    pages: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Breaks; by default those of the track."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file to write (default: breaklab.html)."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            "--site",
            metavar="DIR",
            help="Write a static site instead: every break, in each language, one file per page.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All breaks of the catalogue.")] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the file in a browser.")
    ] = False,
    breaks: Breaks = None,
    lang: Lang = None,
    no_cache: NoCache = False,
) -> int:
    """Write breaks as one HTML file: predict, then watch the gradient go wrong, step by step."""
    session = CommandSession(breaks, lang=lang, cached=not no_cache)
    if pages and everything:
        raise UsageError("--all cannot be combined with ids", "leave one of them out")
    if site:
        require_one({"--site": site, "--out": out, "--all": everything}, message("leave one out"))
        file = _write_site(session, pages or (), site)
    else:
        file = out or Path("breaklab.html")
        chosen = _chosen(session, pages or (), everything=everything)
        session.show_mistakes()
        write_lessons(session, chosen, file, with_primer=not (pages or everything))
        session.console.print(str(file), soft_wrap=True)
    if session.is_interactive and not no_open:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
    return 0


def write_lessons(
    session: CommandSession, pages: Sequence[Page], out: Path, *, with_primer: bool = False
) -> None:
    """Run pages and write them to a file, on request after page 0.

    Raises what `require_lessons` raises.
    """
    from harness.core.files import write_file

    require_lessons(pages, out)
    write_file(out, session.run(lambda: _document(session, pages, with_primer)))


def _write_site(session: CommandSession, ids: Sequence[str], folder: Path) -> Path:
    """Write the whole course, or these breaks, as a site, and return its first file."""
    from dataclasses import replace

    from harness.report import html_room
    from harness.report.language import languages

    room, catalogue = html_room("site"), session.catalogue
    session.show_mistakes()
    pages = _chosen(session, ids, everything=False) if ids else catalogue.valid_pages()
    if ids:
        _require_probes(pages)
    pages = [page for page in pages if page.front.kind in LESSONS]
    readers = {code: replace(session, lang=code) for code in ("en", *languages())}
    says = {code: reader.language for code, reader in readers.items()}
    site = room.Site(catalogue, pages, not ids, says)
    room.require_folder(folder, site.names)
    titles = {code: site.titles(code, map(readers[code].titled, pages)) for code in readers}

    def files() -> Iterator[tuple[str, str]]:
        yield from site.shared().items()
        for code, entries in titles.items():
            yield from site.first_files(code, entries).items()
        for page in pages:
            if page.id in site.ids:
                recorded = _record(session, page)
                for code, reader in readers.items():
                    lesson = _lesson(reader, page, recorded)
                    yield site.name(code, page.id), site.lesson(lesson, titles[code])

    written = [room.write_changed(folder / name, text) for name, text in session.each(files())]
    first = folder / "index.html"
    session.console.print(str(first), soft_wrap=True)
    said = session.console.say(
        "{count} files, {changed} of them new or changed", count=len(written), changed=sum(written)
    )
    session.console.print(said)
    return first


def require_lessons(pages: Sequence[Page], out: Path) -> None:
    """Raise UsageError for a whole training, EnvironmentProblem if nothing can be written."""
    from harness.report import html_room, require_writable

    _require_probes(pages)
    require_writable(out)
    html_room("document")


def _require_probes(pages: Sequence[Page]) -> None:
    from harness.pages.front_matter import TrainingBreak

    for page in pages:
        if isinstance(page.front, TrainingBreak):
            raise UsageError(
                message("`{page}` has no probes: it changes a whole training run", page=page.id),
                message("harness break {page}", page=page.id),
            )


def _chosen(session: CommandSession, ids: Sequence[str], *, everything: bool) -> list[Page]:
    """Return the breaks to write."""
    from harness.pages.front_matter import Break

    if not ids:
        catalogue = session.catalogue
        pages = catalogue.valid_pages() if everything else map(catalogue.page, catalogue.track)
        return [page for page in pages if isinstance(page.front, Break)]
    return [session.page(page_id, "break") for page_id in dict.fromkeys(ids)]


def _document(session: CommandSession, pages: Sequence[Page], with_primer: bool) -> str:
    from harness.report.html.document import document
    from harness.report.html.primer import PrimerLesson

    lessons = [_lesson(session, page, _record(session, page)) for page in pages]
    title = lessons[0].page.title if len(lessons) == 1 else session.console.say("The lab")
    primer = None
    if with_primer:
        primer = PrimerLesson(session.catalogue.page_0, session.language)
    return document(title, lessons, session.language, primer)


def _record(session: CommandSession, page: Page) -> Recorded:
    from harness.experiment.lab import record

    return record(page, session.catalogue, session.engine, session.baseline, session.variant)


def _lesson(session: CommandSession, page: Page, recorded: Recorded) -> Lesson:
    from harness.report.html.lesson import Lesson

    shown = session.translated(page)
    return Lesson(recorded, shown, session.console.say, session.place(page))
