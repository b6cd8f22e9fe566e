"""Commands with which one reads: `list`, `show`, `diff`, `explain` and `myth`.

Nothing is run for them, except the program of a myth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, PageId, VariantId, require_one
from harness.cli.session import CommandSession, complain, page_entry, print_json
from harness.core.errors import DoesNotApply, EnvironmentProblem, UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.core.report import PredictionReport
    from harness.pages.page import Page

NOT_TO_DO = ("variant", "operator", "control")
"""The kinds of pages that serve the harness; learners need not do them."""


def list_pages(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...", help="Only pages with these words in their id, family or title."
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the pages of this family.")
    ] = None,
    level: Annotated[str | None, typer.Option(metavar="N", help="Only this level, 1 to 3.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only breaks, myths, and so on.")
    ] = None,
    todo: Annotated[bool, typer.Option("--todo", help="Only what you have not done.")] = False,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    probes: Annotated[
        bool, typer.Option("--probes", help="List the probes that pages share instead.")
    ] = False,
    track: Annotated[
        bool, typer.Option("--track", help="List the pages for beginners, in order.")
    ] = False,
) -> int:
    """List breaks, variants, myths and exercises, or the probes that they share."""
    if probes or track:
        filters = {"WORD": words or None, "--family": family, "--level": level, "--kind": kind}
        shown = {"--probes": probes, "--track": track, "--todo": todo, "--engine": engine}
        require_one({**shown, **filters}, message("leave one out"))
    session = CommandSession(breaks, engine, lang=lang, json=json)
    if probes:
        return _list_probes(session)
    if track:
        return _list_track(session)
    done = session.progress.done
    pages, mistakes = session.catalogue.pages
    if engine is not None:
        from harness.experiment.patching import applies

        breaks_only = [page for page in pages if page.front.kind == "break"]
        pages = tuple(page for page in breaks_only if applies(page, session.engine))
    pages = _with_value(pages, "family", family, lambda page: page.front.family)
    pages = _with_value(pages, "level", level, lambda page: str(page.front.level))
    pages = _with_value(pages, "kind", kind, lambda page: page.front.kind)
    pages = _with_words(pages, words or ())
    if todo:
        left = (page for page in pages if page.front.kind not in NOT_TO_DO)
        pages = tuple(page for page in left if page.id not in done)
    if json:
        entries = [{**page_entry(page), "done": page.id in done} for page in pages]
        print_json({"schema": 1, "pages": entries})
    elif todo and not pages:
        session.console.print(session.console.say("There is nothing left to do here."))
    else:
        from harness.report.pages import show_list

        show_list(session.console, [session.titled(page) for page in pages], done)
    for mistake in mistakes:
        complain(mistake, session.language)
    return 2 if mistakes else 0


def _with_value(
    pages: Iterable[Page], what: str, wanted: str | None, value_of: Callable[[Page], str]
) -> tuple[Page, ...]:
    """Return the pages with this value, or all pages if it is None.

    Raises UsageError, with the nearest values, if no page has it.
    """
    pages = tuple(pages)
    if wanted is None:
        return pages
    values = sorted({value_of(page) for page in pages})
    chosen = tuple(page for page in pages if value_of(page) in (wanted, wanted.removesuffix("s")))
    if not chosen:
        from harness.pages.catalogue import unknown

        remedy = message("--{option} takes {values}", option=what, values=", ".join(values))
        raise unknown(what, wanted, values, remedy)
    return chosen


def _with_words(pages: tuple[Page, ...], words: Sequence[str]) -> tuple[Page, ...]:
    """Return the pages that have all words in id, family or title.

    Raises UsageError, with the nearest ids, if there is none.
    """
    chosen = tuple(
        page
        for page in pages
        if all(
            word.casefold() in f"{page.id} {page.front.family} {page.title}".casefold()
            for word in words
        )
    )
    if words and not chosen:
        from harness.pages.catalogue import unknown

        ids = [page.id for page in pages]
        raise unknown("page with", " ".join(words), ids, "`harness list` shows all pages")
    return chosen


def _list_probes(session: CommandSession) -> int:
    shared = list(session.catalogue.shared_probes.values())
    if session.json:
        entries = [{"name": p.name, "kind": p.kind, "doc": p.doc, "path": p.path} for p in shared]
        print_json({"schema": 1, "probes": entries})
    else:
        from harness.report.pages import show_probes

        show_probes(session.console, shared)
    return 0


def _list_track(session: CommandSession) -> int:
    track, done = session.catalogue.track, session.progress.done
    pages = [session.page(page_id) for page_id in track]
    if session.json:
        entries = [
            {**page_entry(page), "idea": track[page.id], "done": page.id in done} for page in pages
        ]
        print_json({"schema": 1, "track": entries})
    else:
        from harness.report.pages import show_track

        show_track(session.console, pages, track, done)
    return 0


# ----- `harness show` -----


def show(
    page: PageId,
    engine: EngineName = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Json = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="Also show the answer of an exercise.")
    ] = False,
    test: Annotated[
        bool,
        typer.Option("--test", help="Print only the page's test, for a file that pytest runs."),
    ] = False,
) -> int:
    """Read a page in the terminal; an exercise without its answer."""
    require_one({"--test": test, "--answer": answer, "--json": json}, message("leave one out"))
    session = CommandSession(breaks, engine, lang=lang, json=json)
    original = session.page(page)
    if test:
        return _print_test(session, original)
    shown = session.translated(original)
    is_translated = shown is not original
    if original.front.kind == "exercise" and not answer:
        from harness.grade.exercise import without_answer

        shown = without_answer(shown, original)
    if json:
        print_json({"schema": 1, **page_entry(shown), "markdown": shown.body})
        return 0
    from harness.report.pages import show_page
    from harness.report.terminal import show_diff

    if engine is None:
        shown = _for_learners(session, shown, original)
    show_page(session.console, shown, translated=is_translated)
    if engine is not None:
        from harness.check.runner import prepare_page

        experiment = prepare_page(original, session.context_for(original))
        show_diff(session.console, experiment.diff, experiment.sites)
    return 0


def _for_learners(session: CommandSession, shown: Page, original: Page) -> Page:
    """Return the page of a break without the notation of patches, if its readers do not know it.

    The engine's own code takes the place of the patch, and the patches for other engines are left
    out.
    """
    from harness.pages.front_matter import Break
    from harness.report.pages import EXPERT, without_notation

    if not isinstance(original.front, Break) or original.front.level >= EXPERT:
        return shown
    from harness.engines.engine import find_engine
    from harness.experiment.patching import prepare

    with session.busy():
        try:
            experiment = prepare(original, session.catalogue, find_engine())
        except DoesNotApply:
            return shown
    return without_notation(shown, original, experiment)


def _print_test(session: CommandSession, page: Page) -> int:
    """Print the page's invariant as a test. Raises UsageError if it has none that runs alone."""
    from harness.pages.checks import invariant_of
    from harness.pages.front_matter import Break

    invariant = invariant_of(page) if isinstance(page.front, Break) else None
    if invariant is None:
        raise UsageError(
            message("`{page}` has no test that runs on its own", page=page.id),
            message("harness show {page}", page=page.id),
        )
    session.console.print(invariant.pasted(), markup=False, highlight=False, soft_wrap=True)
    return 0


# ----- `harness diff` -----


def diff(
    page: PageId,
    engine: EngineName = None,
    on: VariantId = None,
    breaks: Breaks = None,
    json: Json = False,
    lang: Lang = None,
) -> int:
    """Show what a page changes in the engine's own code."""
    session = CommandSession(breaks, engine, on, lang, json)
    broken = session.page(page)
    with session.busy():
        from harness.check.runner import prepare_page
        from harness.report.terminal import show_diff

        try:
            experiment = prepare_page(broken, session.context_for(broken), session.variant)
        except DoesNotApply:
            if not session.engine.foreign:
                raise
            raise session.without_site(broken) from None
    if json:
        sites, text = experiment.sites, experiment.diff
        print_json({"schema": 1, "break": page, "sites": sites, "diff": text})
    else:
        show_diff(session.console, experiment.diff, experiment.sites)
    return 0


# ----- `harness explain` -----


def explain(
    word: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="An outcome, a stage, a diagnostic or another term; all by default.",
        ),
    ] = None,
    lang: Lang = None,
    json: Json = False,
) -> int:
    """Explain a word that reports and pages use."""
    from harness.report.glossary import find_entry, read_glossary, show_entry, show_glossary

    session = CommandSession(lang=lang, json=json)
    if word:
        entry = find_entry(" ".join(word), session.language)
        if json:
            print_json({"schema": 1, "entry": entry})
        else:
            show_entry(session.console, entry)
        return 0
    entries = read_glossary(session.language)
    if json:
        print_json({"schema": 1, "entries": list(entries.values())})
    else:
        show_glossary(session.console, entries)
    return 0


# ----- `harness myth` -----


def myth(page: PageId, lang: Lang = None, breaks: Breaks = None, json: Json = False) -> int:
    """Read a claim from teaching material, and run the program that tests it."""
    session = CommandSession(breaks, lang=lang, json=json)
    claim = session.page(page, "myth")
    shown = session.translated(claim)
    if not json:
        from harness.report.pages import show_opening

        show_opening(session.console, shown, claim, "The claim")
    with session.busy():
        from harness.check.runner import run_page
        from harness.experiment.myth import MythReport, find_exhibit, missing_library

        program = find_exhibit(claim).program
    if not json:
        from harness.report.pages import show_program

        show_program(session.console, program.source)
    report = session.run(lambda: run_page(claim, session))
    assert isinstance(report, MythReport)
    predictions: Sequence[PredictionReport] = ()
    if session.is_interactive and not report.skipped and report.questions:
        from harness.cli.prediction import predict_output

        show_again = partial(show_program, session.console, program.source)
        asking = predict_output(session.console, claim.id, report.questions, show_again)
        predictions = list(asking)
    session.show(report, page=shown, original=claim)
    if session.is_interactive and not report.skipped:
        from harness.cli.break_ import predictions_made
        from harness.learn.events import PageFinished

        made = predictions_made(predictions)
        session.journal.record(*made, PageFinished(page=claim.id))
    session.show_next(claim)
    if missing := missing_library(program):
        raise EnvironmentProblem(
            message("the program was not run: {problem}", problem=missing.sentences[0]),
            missing.sentences[1],
        )
    return 0 if report.agrees else 1
