"""Progress as a JSON file: to hand it in, to keep it, or to move it to another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from harness.core import read_text
from harness.core.errors import PageError, as_message
from harness.core.files import write_new
from harness.core.message import message
from harness.learn.events import AnyEvent

LARGEST = 32 * 1024 * 1024
"""Bytes of a file."""

SCHEMA = 1


class Export(msgspec.Struct, frozen=True):
    """Schema 1: keys may be added, never renamed."""

    schema: Annotated[int, msgspec.Meta(ge=1)]
    events: tuple[AnyEvent, ...]


class _Header(msgspec.Struct):
    schema: int


def write_export(events: tuple[AnyEvent, ...], path: Path) -> None:
    """Write the events to a new file. Raises UsageError if it exists."""
    text = msgspec.json.format(msgspec.json.encode(Export(SCHEMA, events)), indent=1)
    write_new(path, text + b"\n", as_message("choose another name, or remove the file"))


def read_export(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events in a file. Raises PageError, with the reason, if it is not an export."""
    text = read_text(path, LARGEST)
    remedy = "`harness progress --export FILE` writes such a file"
    try:
        schema = msgspec.json.decode(text, type=_Header).schema
        if schema > SCHEMA:
            problem = message(
                "its schema is {schema}, and this version of breaklab knows {known}",
                schema=schema,
                known=SCHEMA,
            )
            raise PageError(str(path), 1, problem, "install the version that wrote it")
        return msgspec.json.decode(text, type=Export).events
    except (msgspec.MsgspecError, RecursionError) as error:
        unlike = message("it is not an export of progress: {error}", error=error)
        raise PageError(str(path), 1, unlike, remedy) from None
