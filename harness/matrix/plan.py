"""The plan of a matrix, made before anything runs, so that an invalid page is reported at once.

Controls come first: they decide whether the rest can be believed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.core.errors import BreaklabError, DoesNotApply, UsageError
from harness.core.message import message
from harness.core.report import EngineReport, Report, RunReport
from harness.engines.engine import Engine
from harness.experiment.lab import report_absence
from harness.experiment.patching import Experiment, prepare
from harness.matrix.cached import (
    MATRICES,
    cached_common,
    cached_evaluations,
    page_key,
    shared_key,
)
from harness.matrix.committed import committed_file, read_committed
from harness.matrix.evaluation import Evaluation, Size
from harness.pages.catalogue import BUNDLED, Catalogue, nearest
from harness.pages.front_matter import Break, Control, TrainingBreak, Variant
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache, key_of


@dataclass(frozen=True)
class Entry:
    """A page to evaluate."""

    page: Page
    root: Path
    """The catalogue root that contains it."""
    key: bytes
    """The key of its evaluation in the cache."""
    work: Experiment | Report | Evaluation
    """The experiment; a report if the patch has no site; the evaluation if it is cached."""
    foreign: frozenset[str]
    """Probes from neither its own root nor the bundled one: they are not in its committed row."""


@dataclass(frozen=True)
class Choice:
    """The pages of a matrix, in the order of the catalogue, and the engine."""

    catalogue: Catalogue
    engine: Engine
    variant: Page | None
    """It takes the place of the clean engine."""
    controls: tuple[Page, ...]
    variants: tuple[Page, ...]
    breaks: tuple[Page, ...]
    complete: frozenset[Path]
    """The roots of which every break is included."""

    @property
    def report(self) -> EngineReport:
        """Which engine is evaluated."""
        return self.engine.report(self.variant.id if self.variant else None)

    @property
    def committed_files(self) -> dict[Path, Path]:
        """The file of the committed matrix, by root; none for a foreign engine."""
        roots = () if self.engine.foreign else self.catalogue.roots
        return {root: committed_file(root, self.report.variant) for root in roots}

    @cached_property
    def shared_key(self) -> bytes:
        """The key of what every page's evaluation depends on."""
        return shared_key(self.catalogue, self.engine, self.variant)

    def key(self, page: Page) -> bytes:
        """Return the key of a page's evaluation."""
        return page_key(self.shared_key, page)

    @property
    def matrix_key(self) -> bytes:
        """The key of the matrix."""
        keys = [self.key(page) for page in (*self.controls, *self.variants, *self.breaks)]
        files = self.committed_files.values()
        committed = [(str(file), file.read_bytes() if file.is_file() else None) for file in files]
        complete = sorted(map(str, self.complete))
        facts = (keys, committed, complete, self.catalogue.conventions)
        return key_of(MATRICES, facts)


@dataclass(frozen=True)
class Plan:
    """Everything that is to be evaluated, controls first."""

    choice: Choice
    controls: tuple[Entry, ...]
    variants: tuple[Entry, ...]
    breaks: tuple[Entry, ...]
    common: Sequence[RunReport]
    """The reports that are common to all pages; empty if they are not cached."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which they are evaluated."""
        return (*self.controls, *self.variants, *self.breaks)


def choose(
    catalogue: Catalogue,
    engine: Engine,
    *,
    on: str | None = None,
    ids: Sequence[str] = (),
    family: str | None = None,
    only: Sequence[Path] = (),
) -> Choice:
    """Choose the pages of a matrix.

    Parameters
    ----------
    catalogue : Catalogue
        The pages and the shared probes. Every page is evaluated on all of these and on its own.
    engine : Engine
        The engine to break.
    on : str, optional
        The id of a variant that takes the place of the clean engine. Other variants are then left
        out, since they are rewrites of the engine as it is.
    ids, family, only : sequence of str, str, sequence of Path, optional
        Only these breaks, only the breaks of this family, only the breaks in these folders.

    Raises
    ------
    PageError
        For the first page that cannot be used, or a committed matrix that cannot be read.
    UsageError
        For an id or a family that no break has, or folders without a break.
    """
    pages = catalogue.valid_pages()
    variant = None if on is None else catalogue.page(on, "variant")
    breaks = [page for page in pages if isinstance(page.front, Break)]
    breaks = [page for page in breaks if page.id in ids or _is_tried(page, engine)]
    chosen = _select(catalogue, breaks, ids, family, only)
    left_out = {page.id for page in breaks} - {page.id for page in chosen}
    omitted = {_root(page.path, catalogue.roots) for page in breaks if page.id in left_out}
    ours = not engine.foreign
    return Choice(
        catalogue=catalogue,
        engine=engine,
        variant=variant,
        controls=tuple(p for p in pages if isinstance(p.front, Control) and ours),
        variants=tuple(
            page
            for page in pages
            if isinstance(page.front, Variant) and ours and not variant and _is_tried(page, engine)
        ),
        breaks=tuple(chosen),
        complete=frozenset(catalogue.roots) - omitted,
    )


def _is_tried(page: Page, engine: Engine) -> bool:
    """Whether a page is tried on the engine; on ours, pages about other engines are left out."""
    return engine.foreign or not page.is_about_another(engine.name)


def plan_matrix(choice: Choice, cache: Cache) -> Plan:
    """Put every page's patch into the engine, unless its evaluation is cached; nothing is executed.

    Raises PageError for the first page that cannot be used.
    """
    planner = _Planner(choice, cache)
    for file in choice.committed_files.values():
        read_committed(file)  # report its mistakes before anything runs
    return Plan(
        choice=choice,
        controls=planner.entries(choice.controls),
        variants=planner.entries(choice.variants),
        breaks=planner.entries(choice.breaks),
        common=planner.common,
    )


def size_of(probe: Probe) -> Size:
    """Return the kind of a probe and the number of elements in its inputs."""
    elements = sum(
        math.prod(leaf.shape) if leaf.shape is not None else np.size(np.asarray(leaf.values))
        for leaf in probe.leaves
    )
    return Size(probe.kind, elements)


def _select(
    catalogue: Catalogue,
    breaks: list[Page],
    ids: Sequence[str],
    family: str | None,
    only: Sequence[Path],
) -> list[Page]:
    """Return the breaks with these ids, of this family, in these folders."""
    for page in ids:
        if isinstance(catalogue.page(page, "break").front, TrainingBreak):
            raise UsageError(
                message(
                    "`{page}` needs many seeds, and diagnostics look at single runs", page=page
                ),
                message("`harness break {page}` compares the logs of many runs", page=page),
            )
    families = sorted({page.front.family for page in breaks})
    if family is not None and family not in families:
        remedy = message(
            "{question}the families are {families}",
            question=nearest(family, families),
            families=", ".join(families),
        )
        raise UsageError(message("no family `{family}`", family=family), remedy)
    inside = catalogue.ids_in(only) if only else catalogue.files.keys()
    chosen = [
        page
        for page in breaks
        if (not ids or page.id in ids) and family in (None, page.front.family) and page.id in inside
    ]
    if only and not chosen:
        folders = ", ".join(map(str, only))
        raise UsageError(
            message("no break to run in {folders}", folders=folders), "`harness new` writes one"
        )
    return chosen


class _Planner:
    """Makes the entries of one plan."""

    def __init__(self, choice: Choice, cache: Cache) -> None:
        self.choice, self.cache = choice, cache
        self.catalogue, self.engine, self.variant = choice.catalogue, choice.engine, choice.variant
        self.common = cached_common(cache, choice.shared_key)
        self.homes = {
            name: _root(probe.path, choice.catalogue.roots)
            for name, probe in choice.catalogue.shared_probes.items()
        }

    def entries(self, pages: Iterable[Page]) -> tuple[Entry, ...]:
        keys = {page.id: (page, self.choice.key(page)) for page in pages}
        cached = cached_evaluations(self.cache, (key for _, key in keys.values()), self.common)
        return tuple(self._entry(page, key, cached.get(key)) for page, key in keys.values())

    def _entry(self, page: Page, key: bytes, cached: Evaluation | None) -> Entry:
        root = _root(page.path, self.catalogue.roots)
        at_home = {root, BUNDLED}
        foreign = frozenset(name for name, home in self.homes.items() if home not in at_home)
        return Entry(page, root, key, cached or self._work(page), foreign)

    def _work(self, page: Page) -> Experiment | Report:
        names = [*self.catalogue.shared_probes, *(probe.name for probe in page.probes)]
        try:
            return prepare(page, self.catalogue, self.engine, variant=self.variant, probes=names)
        except BreaklabError as error:
            if not (self.engine.foreign or isinstance(error, DoesNotApply)):
                raise
            return report_absence(page, self.engine, self.variant.id if self.variant else None)


def _root(path: str, roots: Collection[Path]) -> Path:
    """Return the catalogue root that contains a file; the innermost if roots are nested."""
    inside = [root for root in roots if Path(path).is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts))
