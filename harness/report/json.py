"""Reports and listings as JSON, for programs. Schema 1: keys may be added, never renamed."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.core.message import as_text


def to_json(thing: Any) -> str:
    """Return indented JSON; messages become English, NaN and infinities null."""
    return msgspec.json.format(msgspec.json.encode(thing, enc_hook=as_text), indent=2).decode()
