"""Engines: locating, reading and loading their source, and calling engines of any style."""

from __future__ import annotations

import os
from pathlib import Path

SETTINGS = "harness.toml"
"""An author's declarations about an engine."""


def nearest_settings(start: Path) -> Path | None:
    """The `harness.toml` of this folder or of the nearest parent that has one."""
    for folder in (start.resolve(), *start.resolve().parents):
        if os.path.lexists(folder / SETTINGS):
            return folder / SETTINGS
    return None
