"""The `harness.toml`: what somebody has said about an engine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from harness.core.errors import UsageError

SETTINGS = "harness.toml"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [engine] of a `harness.toml`; what is not said is found out by trying."""

    target: str
    root: str | None = None
    """The folder from which it is imported, as `src`, where the files do not show it."""
    leaf: str | None = None
    data: str | None = None
    grad: str | None = None
    backward: str | None = None
    functions: tuple[str, ...] = ()
    """Modules with functions of tensors, beside the target's own."""
    accumulation: str | None = None
    names: dict[str, str | tuple[str, ...]] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: Settings


def nearest_settings(start: Path) -> Path | None:
    """The `harness.toml` of this folder or of the nearest above it."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / SETTINGS).is_file():
            return folder / SETTINGS
    return None


def read_settings(path: Path) -> Settings:
    """The settings at `path`. Raises UsageError where they cannot be read."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return msgspec.convert(table, _File).engine
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        remedy = '[engine] with a line `target = "path/to/tensor.py:Tensor"`; keys are\n    '
        keys = ", ".join(Settings.__struct_fields__)
        said = " ".join(str(error).split())
        raise UsageError(f"{path} cannot be read: {said}", f"{remedy}{keys}") from None
