"""The `harness.toml`: an author's declarations about an engine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from harness.core.errors import UsageError

SETTINGS = "harness.toml"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [engine] of a `harness.toml`; a survey determines what it omits."""

    target: str
    root: str | None = None
    """The folder that it is imported from, such as `src`, if the files do not show it."""
    leaf: str | None = None
    data: str | None = None
    grad: str | None = None
    backward: str | None = None
    functions: tuple[str, ...] = ()
    """Modules with functions of tensors, besides the target's own."""
    accumulation: str | None = None
    names: dict[str, str | tuple[str, ...]] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: Settings


def nearest_settings(start: Path) -> Path | None:
    """The `harness.toml` of this folder or of the nearest parent that has one."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / SETTINGS).is_file():
            return folder / SETTINGS
    return None


def read_settings(path: Path) -> Settings:
    """Read the settings at `path`. Raises UsageError if they are invalid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return msgspec.convert(table, _File).engine
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        keys = ", ".join(Settings.__struct_fields__)
        example = '`target = "path/to/tensor.py:Tensor"`'
        remedy = f"write a table [engine] with a line {example}; its keys are\n    {keys}"
        raise UsageError(f"{path} cannot be read: {reason}", remedy) from None
