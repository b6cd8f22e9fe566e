"""Reports and listings as JSON, for programs. Schema 1: keys may be added, never renamed."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from harness.core.message import as_text
from harness.core.vocabulary import visible


def to_json(thing: Any) -> str:
    """Return indented JSON; messages become English, NaN and infinities null.

    Invisible characters in its strings, which could control a terminal, are escaped.
    """
    text = msgspec.json.format(msgspec.json.encode(thing, enc_hook=as_text), indent=2).decode()
    return visible(text, escape=lambda character: json.dumps(character)[1:-1])
