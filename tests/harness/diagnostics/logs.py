"""Logs made by hand."""

from typing import Any

from harness.core.run import Array, pack


def log_of(*snapshots: dict[str, Any]) -> list[dict[str, Array]]:
    return [{name: pack(value) for name, value in snapshot.items()} for snapshot in snapshots]
