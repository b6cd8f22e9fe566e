"""The course: units of pages in an order for teaching, read from `course.toml`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.pages.page import read_toml


class Unit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit of the course."""

    title: str
    idea: str
    """What learners know afterwards, in one to three sentences."""
    pages: tuple[str, ...]
    """Ids, in the order in which to read them; the breaks among them are the unit's selection."""
    exercises: tuple[str, ...] = ()
    """Ids of exercises."""


def read_course(path: Path) -> dict[str, Unit]:
    """Read the units of a `course.toml` in order, by name. Raises PageError for anything else."""
    problem = "it is not a TOML file of units"
    remedy = 'write a table `[name]` per unit, with `title`, `idea` and `pages = ["id", ...]`'
    return read_toml(path, dict[str, Unit], problem, remedy)
