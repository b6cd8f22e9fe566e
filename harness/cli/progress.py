"""`harness progress`: what is done, how good the predictions were, and what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, Json, Lang, require_one
from harness.cli.session import Session, print_json
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.learn.progress import Way


def progress(
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete all progress; asks first unless --yes is given.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the progress to a new JSON file."),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Add the progress in an exported file."),
    ] = None,
    breaks: Breaks = None,
    lang: Lang = None,
    json: Json = False,
) -> int:
    """Show what you have done, how good your predictions were, and what comes next."""
    require_one({"--reset": reset, "--export": export, "--import": import_})
    session = Session(breaks, lang=lang, json=json)
    if reset:
        return _reset(session, yes)
    if export:
        return _export(session, export)
    if import_:
        return _import(session, import_)
    return _show(session)


def _show(session: Session) -> int:
    from harness.learn.progress import Way
    from harness.report.progress import show_progress

    way = Way(session.catalogue, session.progress)
    if session.json:
        print_json(_summary(way))
    else:
        show_progress(session.console, way)
    return 0


def _summary(way: Way) -> dict[str, object]:
    from harness.learn.hunt import hunts_in
    from harness.learn.progress import next_steps

    progress = way.progress
    ended = [hunt for hunt in hunts_in(progress.events) if hunt.answer]
    return {
        "schema": 1,
        "track": {"done": way.done, "pages": len(way.track), "next": way.next_id},
        "done": sorted(progress.done),
        "repaired": sorted(progress.repaired),
        "predictions": {"count": len(progress.predictions), "right": progress.right},
        "calibration": progress.calibration,
        "self_test": {"before": progress.score("before"), "after": progress.score("after")},
        "hunts": {
            "ended": len(ended),
            "solved": sum(hunt.is_solved for hunt in ended),
            "scores": [hunt.score for hunt in ended],
        },
        "next": [step.command for step in next_steps(way)],
    }


def _reset(session: Session, yes: bool) -> int:
    """Remove all events. Raises UsageError without a terminal to ask on, and NotUsable."""
    say, database = session.console.say, session.journal.database
    if not yes:
        if not session.is_interactive:
            raise UsageError("--reset asks first, but this is not a terminal", "add --yes")
        question = say("Delete all your progress? Type yes: ")
        try:
            answer = session.console.input(question).strip().lower()
        except EOFError:
            session.console.print()
            answer = ""
        if answer not in ("yes", say("yes")):
            session.console.print(say("Nothing was changed."))
            return 0
    database.clear()
    session.console.print(say("Your progress is empty."))
    return 0


def _export(session: Session, path: Path) -> int:
    """Write the events to a file. Raises UsageError if it exists, and NotUsable."""
    from harness.learn.events import write_export

    events = tuple(session.journal.database.read())
    write_export(events, path)
    say = session.console.say
    session.console.print(say("{count} events written to {path}", count=len(events), path=path))
    return 0


def _import(session: Session, path: Path) -> int:
    """Add the events in a file. Raises PageError if it is not an export, and NotUsable."""
    from harness.learn.events import read_export

    events = read_export(path)
    new, say = session.journal.database.add(events), session.console.say
    line = say("{new} events added; {old} were already there", new=new, old=len(events) - new)
    session.console.print(line)
    return 0
