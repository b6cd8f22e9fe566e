"""What a folder of pages states beyond its pages: its conventions, and its course.

`catalogue.toml` names the pages that have a role in the harness, and the abbreviations that pages
may use for their sources. `course.toml` lists units of pages in an order for teaching.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import msgspec

from harness.pages.page import read_toml

FILE = "catalogue.toml"


class Controls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ids of the controls of a kill matrix; None where the catalogue names none."""

    no_op: str | None = None
    """It changes nothing: no diagnostic may raise an alarm."""
    sabotage: str | None = None
    """It is wrong everywhere: every diagnostic must raise an alarm."""

    def or_those(self, other: Controls) -> Controls:
        """Return these controls, with missing ones taken from the other."""
        return Controls(self.no_op or other.no_op, self.sabotage or other.sabotage)


class Conventions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a `catalogue.toml` states."""

    in_place: str | None = None
    """The variant that adds gradients into a buffer, in place."""
    unbroadcasting_probe: str | None = None
    """The probe that shows whether an engine un-broadcasts."""
    second_backward_probe: str | None = None
    """The probe that shows what a second backward pass on one graph adds."""
    stand_ins: dict[str, str] = {}
    """Shared probes, and those that replace them on an engine that lacks an operation of theirs."""
    renamed: dict[str, str] = {}
    """Earlier ids of pages, and the ids that they have now."""
    controls: Controls = Controls()
    sources: dict[str, str] = {}
    """Abbreviations of sources, and what each stands for."""

    def or_those(self, other: Self) -> Conventions:
        """Return these conventions, with missing ones taken from the other."""
        return Conventions(
            in_place=self.in_place or other.in_place,
            unbroadcasting_probe=self.unbroadcasting_probe or other.unbroadcasting_probe,
            second_backward_probe=self.second_backward_probe or other.second_backward_probe,
            stand_ins={**other.stand_ins, **self.stand_ins},
            renamed={**other.renamed, **self.renamed},
            controls=self.controls.or_those(other.controls),
            sources={**other.sources, **self.sources},
        )

    def is_abbreviation(self, source: str) -> bool:
        """Whether a source is written as one of the abbreviations."""
        return any(re.fullmatch(_pattern(form), source) for form in self.sources)

    def is_misspelt(self, source: str) -> bool:
        """Whether a source begins like an abbreviation with a number, but does not end like it."""
        stems = [form.rstrip("N") for form in self.sources if form.endswith("N")]
        return source.startswith(tuple(stems)) and not self.is_abbreviation(source)


def _pattern(form: str) -> str:
    """Return an abbreviation's regular expression: `N` is a number, `NNN` one of three digits."""
    stem = form.rstrip("N")
    digits = len(form) - len(stem)
    number = {0: "", 1: r"\d+"}.get(digits, rf"\d{{{digits}}}")
    return re.escape(stem) + number


def read_conventions(folders: Iterable[Path]) -> Conventions:
    """Return the conventions of several folders of pages; the first that states one takes
    precedence.

    Raises PageError for a file that cannot be read.
    """
    conventions = Conventions()
    remedy = f"the keys are {', '.join(Conventions.__struct_fields__)}"
    for path in (folder / FILE for folder in folders):
        if os.path.lexists(path):
            stated = read_toml(path, Conventions, "it has invalid conventions", remedy)
            conventions = conventions.or_those(stated)
    return conventions


# ----- The course -----


class Unit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit of the course."""

    title: str
    idea: str
    """What learners know afterwards, in one to three sentences."""
    pages: tuple[str, ...] = ()
    """Ids of the pages for practice, in the order in which to read them."""
    core: tuple[str, ...] = ()
    """Ids of the pages that a class covers, read before the others."""
    further: tuple[str, ...] = ()
    """Ids of the pages for those who want more, read last."""
    exercises: tuple[str, ...] = ()
    """Ids of exercises."""
    teaches: frozenset[str] = frozenset()
    """Names that the unit introduces; no earlier unit needs them."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The ids of all its pages, in reading order; the breaks among them are its selection."""
        return (*self.core, *self.pages, *self.further)

    def with_ids(self, change: Callable[[str], str]) -> Unit:
        """Return the unit with each id replaced by what `change` returns for it."""
        names = ("core", "pages", "further", "exercises")
        changed = {name: tuple(map(change, getattr(self, name))) for name in names}
        return msgspec.structs.replace(self, **changed)


class UnitText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The translated texts of a unit."""

    title: str
    idea: str


def read_unit_texts(path: Path) -> dict[str, UnitText]:
    """Read a `course.es.toml`: the units' texts in another language, by the units' names.

    Raises PageError for anything else.
    """
    return read_toml(
        path,
        dict[str, UnitText],
        "it is not a TOML file of translated units",
        "write a table `[name]` per unit, with `title` and `idea`",
    )


def read_course(path: Path) -> dict[str, Unit]:
    """Read the units of a `course.toml` in order, by name. Raises PageError for anything else."""
    return read_toml(
        path,
        dict[str, Unit],
        "it is not a TOML file of units",
        'write a table `[name]` per unit, with `title`, `idea` and `pages = ["id", ...]`',
    )
