"""`harness doctor [ENGINE]`: examine an engine without a break."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Breaks, Json, NoCache
from harness.cli.session import Session


def doctor(
    engine: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENGINE]",
            help="`module:Class`, `path/to/tensor.py:Class`, or a harness.toml.",
        ),
    ] = None,
    breaks: Breaks = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> int:
    """Examine an engine without a break: how it is built, its bugs, and which breaks apply."""
    from harness.doctor.diagnosis import diagnose
    from harness.engines import nearest_settings

    session = Session(breaks, json=json, cached=not no_cache)
    if engine is None:
        engine = str(nearest_settings(Path()) or "minigrad:Tensor")
    diagnosis = session.run(lambda: diagnose(engine, session.catalogue, session.baseline))
    session.show(diagnosis)
    return 0 if diagnosis.judged else 1
