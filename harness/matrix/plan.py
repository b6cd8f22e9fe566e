"""The plan of a matrix, made before anything runs, so that an invalid page is reported at once.

Controls come first: they decide whether the rest can be believed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import breaks as bundled
from harness.core.errors import BreaklabError, DoesNotApply, UsageError
from harness.core.report import EngineReport, Report, RunReport
from harness.engines.engine import Engine
from harness.experiment.lab import report_absence
from harness.experiment.patching import Experiment, prepare
from harness.matrix.cached import cached_common, cached_evaluations, page_key, shared_key
from harness.matrix.committed import committed_file, read_committed
from harness.matrix.evaluation import Evaluation, Size
from harness.pages.catalogue import Catalogue, nearest
from harness.pages.conventions import Conventions
from harness.pages.front_matter import Break, Control, TrainingBreak, Variant
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache


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
class Plan:
    """Everything that is to be evaluated, controls first."""

    engine: EngineReport
    controls: tuple[Entry, ...]
    variants: tuple[Entry, ...]
    breaks: tuple[Entry, ...]
    shared: Mapping[str, Probe]
    """The probes on which every page is evaluated."""
    key: bytes
    """The key of the common reports."""
    common: Sequence[RunReport]
    """The reports that are common to all pages; empty if they are not cached."""
    roots: tuple[Path, ...]
    """The catalogue's roots; each has a committed matrix of its own."""
    whole: bool
    """Whether every break of the catalogue is included."""
    conventions: Conventions
    """The catalogue's conventions, such as which pages are the controls."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which they are evaluated."""
        return (*self.controls, *self.variants, *self.breaks)


def plan_matrix(
    catalogue: Catalogue,
    engine: Engine,
    *,
    on: str | None = None,
    ids: Sequence[str] = (),
    family: str | None = None,
    cache: Cache | None = None,
) -> Plan:
    """Put every page's patch into the engine; nothing is executed.

    Parameters
    ----------
    catalogue : Catalogue
        The pages and the shared probes. Every page is evaluated on all of these and on its own.
    engine : Engine
        The engine to break.
    on : str, optional
        The id of a variant that takes the place of the clean engine. Other variants are then left
        out, since they are rewrites of the engine as it is.
    ids, family : sequence of str, str, optional
        Only these breaks, only the breaks of this family.
    cache : Cache, optional
        Where evaluations may be found.

    Raises
    ------
    PageError
        For the first page that cannot be used, or a committed matrix that cannot be read.
    UsageError
        For an id or a family that no break has.
    """
    pages = catalogue.valid_pages()
    variant = None if on is None else catalogue.page(on, "variant")
    breaks = [page for page in pages if isinstance(page.front, Break)]
    chosen = _select(catalogue, breaks, ids, family)
    planner = _Planner(catalogue, engine, variant, cache)
    ours = not engine.foreign
    for root in catalogue.roots if ours else ():
        read_committed(committed_file(root, on))  # its mistakes are reported before anything runs
    return Plan(
        engine=engine.report(on),
        controls=planner.entries(p for p in pages if isinstance(p.front, Control) and ours),
        variants=planner.entries(
            p for p in pages if isinstance(p.front, Variant) and ours and not variant
        ),
        breaks=planner.entries(chosen),
        shared=catalogue.shared_probes,
        key=planner.key,
        common=planner.common,
        roots=catalogue.roots,
        whole=len(chosen) == len(breaks),
        conventions=catalogue.conventions,
    )


def size_of(probe: Probe) -> Size:
    """Return the kind of a probe and the number of elements in its inputs."""
    elements = sum(
        math.prod(leaf.shape) if leaf.shape is not None else np.size(np.asarray(leaf.values))
        for leaf in probe.leaves
    )
    return Size(probe.kind, elements)


def _select(
    catalogue: Catalogue, breaks: list[Page], ids: Sequence[str], family: str | None
) -> list[Page]:
    """Return the breaks with these ids, or of this family."""
    for page in ids:
        if isinstance(catalogue.page(page, "break").front, TrainingBreak):
            raise UsageError(
                f"`{page}` needs many seeds, and diagnostics look at single runs",
                f"`harness break {page}` compares the logs of many runs",
            )
    families = sorted({page.front.family for page in breaks})
    if family is not None and family not in families:
        remedy = f"{nearest(family, families)}the families are {', '.join(families)}"
        raise UsageError(f"no family `{family}`", remedy)
    return [
        page
        for page in breaks
        if (not ids or page.id in ids) and family in (None, page.front.family)
    ]


class _Planner:
    """Makes the entries of one plan."""

    def __init__(
        self,
        catalogue: Catalogue,
        engine: Engine,
        variant: Page | None,
        cache: Cache | None,
    ) -> None:
        self.catalogue, self.engine, self.variant, self.cache = catalogue, engine, variant, cache
        self.key = shared_key(catalogue, engine, variant)
        self.common = cached_common(cache, self.key) if cache else []
        self.homes = {
            name: _root(probe.path, catalogue.roots)
            for name, probe in catalogue.shared_probes.items()
        }

    def entries(self, pages: Iterable[Page]) -> tuple[Entry, ...]:
        keys = {page.id: (page, page_key(self.key, page)) for page in pages}
        cached: dict[bytes, Evaluation] = {}
        if self.cache:
            cached = cached_evaluations(self.cache, (key for _, key in keys.values()), self.common)
        return tuple(self._entry(page, key, cached.get(key)) for page, key in keys.values())

    def _entry(self, page: Page, key: bytes, cached: Evaluation | None) -> Entry:
        root = _root(page.path, self.catalogue.roots)
        at_home = {root, Path(bundled.__file__).parent}
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
