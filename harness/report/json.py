"""Reports and listings as JSON, for programs. Schema 1: keys may be added, never renamed."""

from __future__ import annotations

from typing import Any

import msgspec


def to_json(thing: Any) -> str:
    """Indented JSON; NaN and infinities, which JSON lacks, become null."""
    return msgspec.json.format(msgspec.json.encode(thing), indent=2).decode()
