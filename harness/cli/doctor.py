"""`harness doctor [ENGINE]`: examine an engine without a break."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Breaks, HtmlFile, HtmlLang, Json, NoCache, require_one
from harness.cli.session import CommandSession, print_json
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.doctor.diagnosis import Diagnosis


def doctor(
    engine: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENGINE]",
            help="`module:Class`, `path/to/tensor.py:Class`, or a harness.toml; by default the "
            "nearest harness.toml.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show everything that was found, not only a summary.")
    ] = False,
    settings: Annotated[
        bool,
        typer.Option("--settings", help="Print only a harness.toml, ready to be saved."),
    ] = False,
    breaks: Breaks = None,
    html: HtmlFile = None,
    lang: HtmlLang = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> int:
    """Examine an engine without a break: how it is built, its bugs, and which breaks apply.

    The exit status is 1 if something looks wrong, or if no probe can judge the engine.
    """
    from harness.core.files import write_file
    from harness.report import html_room, require_writable
    from harness.report.language import open_language

    say = open_language(lang)
    if settings:
        require_one({"--settings": True, "--all": everything, "--html": html, "--json": json})
    session = CommandSession(breaks, json=json, cached=not no_cache)
    if html:
        require_writable(html)
        reports = html_room("reports")
    name = engine if engine is not None else _nearest_engine()
    if settings:
        _print_settings(name, session)
        return 0
    session.show_mistakes()

    def examine() -> Diagnosis:
        from harness.doctor.diagnosis import diagnose  # slow to import: progress is shown already

        return diagnose(name, session.catalogue, session.baseline)

    diagnosis = session.run(examine)
    if json:
        from harness.report.doctor import in_json  # slow to import, like the diagnosis

        print_json(in_json(diagnosis))
    else:
        session.show(diagnosis, argument=engine, everything=everything)
    if html:
        write_file(html, reports.diagnosis_page(diagnosis, say))
    return int(not diagnosis.is_sound)


def _print_settings(name: str, session: CommandSession) -> None:
    from harness.doctor.diagnosis import settings_of
    from harness.experiment.exploration import explore

    conventions = session.catalogue.conventions
    exploration = session.run(lambda: explore(name, session.cache, conventions))
    print(settings_of(exploration), end="")


def _nearest_engine() -> str:
    """Return the nearest harness.toml. Raises UsageError if there is none."""
    from harness.engines import nearest_settings

    nearest = nearest_settings(Path())
    if nearest is None:
        raise UsageError(
            "no engine is named, and there is no harness.toml in this folder or above it",
            "name one: `harness doctor path/to/tensor.py:Tensor`, or `harness doctor "
            "package:Tensor`; `harness doctor --help` shows the options",
        )
    return str(nearest)
