"""Everything that a matrix tries.

All of it is planned first, so that a mistake in a page shows before anything runs. Controls come
first: they say whether the rest can be believed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import breaks as bundled
from harness.core.errors import BreaklabError, DoesNotApply, UsageError
from harness.core.report import EngineReport, Report, RunReport
from harness.engines.engine import Engine
from harness.experiment.baseline import Bench
from harness.experiment.lab import (
    Experiment,
    fitted,
    prepare,
    report_absence,
    report_unreached,
    run_lab,
    tell_stages,
)
from harness.matrix.known import (
    Heard,
    Known,
    digest_of,
    key_of,
    lasts,
    pack,
    recall,
    recall_common,
    remember_common,
    unpack,
)
from harness.matrix.record import FalseAlarm
from harness.matrix.trials import Size, Trials, Tried
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.store import Store
from harness.sandbox.pool import cores, side_by_side

Watch = Callable[[int, str], None]
"""Told how many pages are done, and which one was the last."""


@dataclass(frozen=True)
class Entry:
    """A page to try: its experiment, what came of it before, or that its patch finds no site."""

    page: Page
    root: Path
    """The catalogue root that it comes from."""
    key: bytes
    """What stands for all that the result depends on."""
    experiment: Experiment | Known | Report
    foreign: frozenset[str]
    """Probes from neither its own root nor the bundled one: not part of its committed row."""


@dataclass(frozen=True)
class Plan:
    """What is to be tried, controls first."""

    engine: EngineReport
    controls: tuple[Entry, ...]
    variants: tuple[Entry, ...]
    breaks: tuple[Entry, ...]
    shared: Mapping[str, Probe]
    """The probes that every page is tried on."""
    base: bytes
    """What stands for all that the results of every page depend on."""
    common: Sequence[RunReport]
    """The reports on runs that are common to all pages, as far as they are known."""
    roots: tuple[Path, ...]
    """Of the catalogue; each has a committed matrix of its own."""
    whole: bool
    """Whether every break of the catalogue is among them."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, in the order in which they are tried."""
        return (*self.controls, *self.variants, *self.breaks)


def plan_matrix(
    catalogue: Catalogue,
    engine: Engine,
    *,
    on: str | None = None,
    ids: Sequence[str] = (),
    family: str | None = None,
    store: Store | None = None,
) -> Plan:
    """Put every page's patch into the engine; nothing is executed.

    What the `store` knows to come of a page is taken from there.

    On a variant, that variant is the clean engine, and other rewrites are left out: they are
    written for the engine as it is. Every page is tried on every shared probe and on its own.

    Raises PageError for the first page that cannot be used, UsageError for an id or a family that
    no break has.
    """
    pages, mistakes = catalogue.pages()
    if mistakes:
        raise mistakes[0]
    variant = catalogue.page(on, "variant") if on else None
    breaks = [page for page in pages if page.front.kind == "break" and not page.front.recipe]
    wanted = _select(catalogue, breaks, ids, family)

    base = digest_of(catalogue, engine, variant)
    probes = catalogue.shared_probes
    homes = {name: _root(probe.path, catalogue.roots) for name, probe in probes.items()}

    common = recall_common(store, base) if store else []

    def entries(chosen: Iterable[Page]) -> tuple[Entry, ...]:
        keys = {page.id: key_of(base, page) for page in chosen}
        known = recall(store, keys.values(), common) if store else {}
        return tuple(
            _entry(page, keys[page.id], known, catalogue, engine, variant, homes)
            for page in pages
            if page.id in keys
        )

    return Plan(
        engine=EngineReport(engine.name, on, engine.foreign, engine.like),
        controls=entries(p for p in pages if p.front.kind == "control" and not engine.foreign),
        variants=entries(
            p for p in pages if p.front.kind == "variant" and not on and not engine.foreign
        ),
        breaks=entries(wanted),
        shared=probes,
        base=base,
        common=common,
        roots=catalogue.roots,
        whole=len(wanted) == len(breaks),
    )


def _select(
    catalogue: Catalogue, breaks: list[Page], ids: Sequence[str], family: str | None
) -> list[Page]:
    for page in ids:
        if catalogue.page(page, "break").front.recipe:
            raise UsageError(
                f"`{page}` needs many seeds, and no diagnostic is asked about it",
                f"`harness break {page}` shows what its log tells",
            )
    families = {page.front.family for page in breaks}
    if family is not None and family not in families:
        near = difflib.get_close_matches(family, sorted(families), n=1)
        meant = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"no family `{family}`", f"{meant}they are {', '.join(sorted(families))}")
    return [
        page
        for page in breaks
        if (not ids or page.id in ids) and family in (None, page.front.family)
    ]


def _entry(
    page: Page,
    key: bytes,
    known: Mapping[bytes, Known],
    catalogue: Catalogue,
    engine: Engine,
    variant: Page | None,
    homes: Mapping[str, Path],
) -> Entry:
    experiment: Experiment | Known | Report | None = known.get(key)
    if experiment is None:
        names = [*catalogue.shared_probes, *(probe.name for probe in page.probes)]
        try:
            experiment = prepare(page, catalogue, engine, variant=variant, probes=names)
        except BreaklabError as error:
            if not (engine.foreign or isinstance(error, DoesNotApply)):
                raise
            experiment = report_absence(page, engine, variant.id if variant else None)
    root = _root(page.path, catalogue.roots)
    at_home = {root, Path(bundled.__file__).parent}
    foreign = frozenset(name for name, home in homes.items() if home not in at_home)
    return Entry(page, root, key, experiment, foreign)


def _root(path: str, roots: Collection[Path]) -> Path:
    """The root that a file of the catalogue is in; the innermost, where one is in another."""
    inside = [root for root in roots if Path(path).is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts))


def _size(probe: Probe) -> Size:
    elements = sum(
        math.prod(leaf.shape) if leaf.shape is not None else np.size(np.asarray(leaf.values))
        for leaf in probe.leaves
    )
    return Size(probe.kind, elements)


def try_all(
    plan: Plan,
    bench: Bench,
    *,
    processes: int | None = None,
    watch: Watch = lambda _done, _page: None,
) -> Trials:
    """Run what is planned, page by page, in as many processes as there are cores.

    Raises EnvironmentProblem where the engine does not load.
    """
    if plan.engine.foreign:
        plan = replace(plan, breaks=tuple(_fitted(entry, bench) for entry in plan.breaks))
    tried: dict[str, Tried] = {}
    clean: Heard = {}
    with closing(_side_by_side(plan, bench, processes or cores())) as found_in_turn:
        for done, (entry, found) in enumerate(found_in_turn, start=1):
            tried[entry.page.id] = _tried(entry.page, found)
            clean = {**found.clean, **clean}
            watch(done, entry.page.id)
    return Trials(
        engine=plan.engine,
        diagnostics=tuple(bench.diagnostics),
        breaks=tuple(tried[entry.page.id] for entry in plan.breaks),
        variants=tuple(tried[entry.page.id] for entry in plan.variants),
        controls=tuple(tried[entry.page.id] for entry in plan.controls),
        clean=tuple(alarm for alarms in clean.values() for alarm in alarms),
        shared={name: _size(probe) for name, probe in plan.shared.items()},
    )


def _side_by_side(
    plan: Plan, bench: Bench, processes: int
) -> Generator[tuple[Entry, Known], None, None]:
    """Each entry with what came of it, in their order, whoever tried it.

    The processes are forked once the bench knows the clean engine, so that none asks again.
    """
    fresh = [e for e in plan.entries if not isinstance(e.experiment, Known)]
    experiments = [e.experiment for e in fresh if isinstance(e.experiment, Experiment)]
    _meet_clean(bench, experiments)
    common = plan.common
    if experiments and not common:
        shared = list(plan.shared.values())
        common = report_unreached(bench.clean(experiments[0].clean, shared))
        remember_common(bench.store, plan.base, common)
    _INHERITED.append((fresh, bench, common))
    try:
        indices = range(len(fresh))
        with closing(side_by_side(_try_nth, indices, min(processes, len(fresh)))) as tried:
            yield from _in_turn(plan.entries, _kept(fresh, tried, bench.store, common))
    finally:
        _INHERITED.pop()


def _fitted(entry: Entry, bench: Bench) -> Entry:
    """With the probes that a foreign engine can be judged by."""
    if not isinstance(entry.experiment, Experiment):
        return entry
    return replace(entry, experiment=fitted(entry.experiment, bench))


def _meet_clean(bench: Bench, experiments: Sequence[Experiment]) -> None:
    """Make the bench know the unpatched engine on all probes, so that each library starts once.

    Probes of different pages may have one name; those take another turn.
    """
    waiting = [(one.clean, probe) for one in experiments for probe in one.probes]
    while waiting:
        turn: dict[str, Probe] = {}
        for _, probe in waiting:
            turn.setdefault(probe.name, probe)
        bench.meet(waiting[0][0], list(turn.values()))
        waiting = [(clean, probe) for clean, probe in waiting if turn[probe.name] != probe]


def _kept(
    entries: Iterable[Entry], tried: Iterable[bytes], store: Store, common: Sequence[RunReport]
) -> Iterator[Known]:
    """What came of each entry, kept for another day."""
    for entry, data in zip(entries, tried, strict=True):
        known = unpack(data, common)
        if lasts(known.report):
            store.keep_notes({entry.key: data})
        yield known


def _in_turn(entries: Iterable[Entry], fresh: Iterator[Known]) -> Iterator[tuple[Entry, Known]]:
    """All entries in their order: what is known, and in between what had to be tried."""
    for entry in entries:
        known = entry.experiment
        yield entry, known if isinstance(known, Known) else next(fresh)


_INHERITED: list[tuple[Sequence[Entry], Bench, Sequence[RunReport]]] = []
"""What forked processes find here instead of getting it sent."""


def _try_nth(index: int) -> bytes:
    entries, bench, common = _INHERITED[-1]
    return pack(_try(entries[index], bench), common)


def _try(entry: Entry, bench: Bench) -> Known:
    experiment = entry.experiment
    assert not isinstance(experiment, Known)
    if isinstance(experiment, Report):
        return Known(experiment, _own_sizes(entry.page), {})
    report = run_lab(experiment, bench)
    if entry.page.front.kind == "break" and not any(run.caught_by for run in report.runs):
        report = tell_stages(experiment, bench, report)  # nobody catches it: say where it is lost
    return Known(report, _own_sizes(entry.page), _listen_to_clean(experiment, bench))


def _own_sizes(page: Page) -> dict[str, Size]:
    return {probe.name: _size(probe) for probe in page.probes}


def _tried(page: Page, known: Known) -> Tried:
    return Tried(page.front.family, known.report, page.front.pardon, known.own)


def _listen_to_clean(experiment: Experiment, bench: Bench) -> Heard:
    """What the diagnostics say of the unpatched engine."""
    page = experiment.page
    own = {probe.name for probe in page.probes}
    heard: Heard = {}
    for (probe, loss), known in bench.clean(experiment.clean, experiment.probes).items():
        key = f"{page.id}/{probe}" if probe in own else probe
        heard.setdefault(key, []).extend(
            FalseAlarm("clean", name, key, loss, message) for name, message in known.alarms.items()
        )
    return heard
