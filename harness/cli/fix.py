"""`harness fix ID`: repair a break in a scratch copy, in one's own editor."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack, chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, EngineName, Json, Lang, NoCache, complete_id, require_one
from harness.cli.session import Session, print_json
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from harness.engines.engine import Engine
    from harness.experiment.context import Context
    from harness.learn.scratch_copy import CopyOrigin, ScratchCopy
    from harness.pages.page import Page


def fix(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The id of a break; without it, the copy in this folder is checked.",
            autocompletion=complete_id,
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the copy.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Start over; the old copy is kept beside the new one.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="FOLDER", help="The folder of the copy; by default fix-ID."),
    ] = None,
    engine: EngineName = None,
    breaks: Breaks = None,
    lang: Lang = None,
    json: Json = False,
    no_cache: NoCache = False,
) -> int:
    """Repair a break in a copy of the engine, in your own editor."""
    require_one({"--check": check, "--again": again})
    choices = _Choices(page, folder, engine, breaks, lang, json, not no_cache)
    if page is not None and not check:
        return _start(choices, page, again=again)
    if again:
        raise UsageError("--again needs the id of a break", "`harness fix ID --again`")
    if engine is not None:
        problem = message("{option} is only for a new copy", option="--engine")
        raise UsageError(problem, message("leave {option} out", option="--engine"))
    return _check(choices)


@dataclass(frozen=True)
class _Choices:
    """What was typed."""

    page: str | None
    folder: Path | None
    engine: str | None
    breaks: list[Path] | None
    lang: str | None
    json: bool
    cached: bool

    def session(self, engine: str | None, breaks: list[Path] | None) -> Session:
        return Session(breaks, engine, lang=self.lang, json=self.json, cached=self.cached)

    @property
    def place(self) -> Path:
        """The folder of the copy."""
        return self.folder or Path(f"fix-{self.page}")

    @property
    def check_command(self) -> str:
        """What to type to check the copy."""
        from harness.learn.scratch_copy import nearest_copy

        near = nearest_copy(Path.cwd())
        if near and self.folder in (None, near):
            return "harness fix"
        usual = Path(f"fix-{self.page}")
        where = "" if self.place == usual else f" --dir {shlex.quote(str(self.folder))}"
        return f"harness fix {self.page} --check{where}"

    def origin(self, clean: Engine) -> CopyOrigin:
        """Return what a copy of this engine is made from."""
        from harness.engines import nearest_settings
        from harness.learn.scratch_copy import CopyOrigin, digest_of

        name = self.engine if self.engine is not None else nearest_settings(Path())
        return CopyOrigin(
            page=self.page or "",
            engine="" if name is None else str(name),
            base=str(Path.cwd()),
            breaks=tuple(str(path.resolve()) for path in self.breaks or ()),
            digest=digest_of(clean),
        )


# ----- A new copy -----


def _start(choices: _Choices, page_id: str, *, again: bool) -> int:
    from harness.learn.repair import repair_task
    from harness.learn.scratch_copy import ScratchCopy, require_place

    session, folder = choices.session(choices.engine, choices.breaks), choices.place
    page = session.page(page_id)
    session.show_mistakes()
    require_place(folder, page.id, again=again)
    _show_title(session, page)
    broken = session.run(lambda: repair_task(page, session))
    copy = ScratchCopy(folder, choices.origin(broken.experiment.clean))
    aside = copy.write(broken.experiment.broken.sources, again=again)
    if session.json:
        print_json(broken.in_folder(folder))
        return 0
    from harness.report.repair import show_new_copy

    if aside:
        session.console.print(session.console.say("The old copy is now {path}.", path=aside))
    show_new_copy(session.console, folder, broken, choices.check_command)
    return 0


def _show_title(session: Session, page: Page) -> None:
    """Print at once what a learner knows about the break; the console knows the page from then on.

    Nothing is printed for JSON.
    """
    from harness.report.terminal import show_title

    shown = session.translated(page)
    if not session.json:
        show_title(session.console, shown, session.place(page))
        session.console.print()


# ----- Checking -----


def _check(choices: _Choices) -> int:
    from harness.learn.repair import judge_copy

    copy = _copy_of(choices)
    origin = copy.origin
    session = choices.session(origin.engine or None, list(map(Path, origin.breaks)))
    page = session.page(origin.page)
    session.show_mistakes()
    _show_title(session, page)
    repair = session.run(lambda: judge_copy(copy, page, _context(session, origin)))
    if not (repair.state == "unrepaired" or repair.engine.foreign):
        from harness.learn.events import Fix

        session.journal.record(Fix(page=page.id, right=repair.state == "right"))
    if session.json:
        print_json(repair)
    else:
        from harness.report.repair import show_repair

        show_repair(session.console, repair, replace(choices, page=page.id).check_command)
        if repair.state == "right" and session.following(page):
            session.console.print()
            session.show_next(page)
    return int(repair.state != "right")


def _copy_of(choices: _Choices) -> ScratchCopy:
    """Return the copy that is meant: in the folder that is named, in this one, or in fix-ID.

    Raises UsageError if there is none, and for an id that no page has.
    """
    from harness.learn.scratch_copy import INFO, MAKE_ONE, nearest_copy, open_copy

    if choices.folder is None and (near := nearest_copy(Path.cwd())):
        copy = open_copy(Path(os.path.relpath(near)))
        if choices.page in (None, copy.origin.page):
            return copy
    if choices.page is None and choices.folder is None:
        raise UsageError("there is no scratch copy in this folder", MAKE_ONE)
    if choices.page is not None and not os.path.lexists(choices.place / INFO):
        choices.session(None, choices.breaks).page(choices.page)
    copy = open_copy(choices.place)
    if choices.page not in (None, copy.origin.page):
        problem = message(
            "{folder} is a copy of `{page}`", folder=copy.folder, page=copy.origin.page
        )
        remedy = message(
            "`harness fix {page} --check --dir {folder}`",
            page=copy.origin.page,
            folder=copy.folder,
        )
        raise UsageError(problem, remedy)
    return copy


def _context(session: Session, origin: CopyOrigin) -> Context:
    """Return the context in which the copy was made; its engine may be named from a folder."""
    if not origin.engine:
        from harness.engines.engine import find_engine
        from harness.experiment.context import OpenContext

        return OpenContext(session.catalogue, find_engine(), session.baseline)
    with ExitStack() as stack:
        try:
            stack.enter_context(chdir(origin.base))
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            problem = message(
                "the folder {folder}, in which the copy was made, cannot be entered: {reason}",
                folder=origin.base,
                reason=getattr(error, "strerror", None) or error,
            )
            raise UsageError(problem, "start over with --again") from None
        session.engine  # noqa: B018  found here, once
    return session
