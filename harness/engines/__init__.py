"""Engines: locating, reading and loading their source, and calling engines of any style."""

from __future__ import annotations

from pathlib import Path

SETTINGS = "harness.toml"
"""An author's declarations about an engine."""


def nearest_settings(start: Path) -> Path | None:
    """The `harness.toml` of this folder or of the nearest parent that has one."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / SETTINGS).is_file():
            return folder / SETTINGS
    return None
