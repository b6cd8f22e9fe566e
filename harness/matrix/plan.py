"""The plan of a matrix, and running it page by page, in as many processes as there are cores.

The plan is made before anything runs, so that an invalid page is reported at once. Controls come
first: they decide whether the rest can be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec

from harness.core.errors import BreaklabError, DoesNotApply, UsageError
from harness.core.message import as_parts, from_parts, message
from harness.core.report import EngineReport, Report, RunReport
from harness.engines.engine import Engine
from harness.experiment.baseline import Baseline
from harness.experiment.cached import engine_facts, page_facts
from harness.experiment.lab import add_stages, report_absence, run_lab, unreached_reports, usable
from harness.experiment.patching import Experiment, prepare
from harness.matrix.committed import committed_file, read_committed
from harness.matrix.evaluation import (
    COMMON,
    EVALUATIONS,
    MATRICES,
    CleanAlarms,
    Evaluation,
    Evaluations,
    StoredEvaluation,
    cached_common,
    cached_evaluations,
    false_alarms,
    pack,
    size_of,
    unpack,
)
from harness.pages.catalogue import BUNDLED, Catalogue, nearest
from harness.pages.front_matter import Break, Control, TrainingBreak, Variant
from harness.pages.page import Page
from harness.pages.probe import Probe
from harness.runs.cache import Cache, key_of
from harness.runs.cached_runs import run_in_parallel
from harness.sandbox.hosts import close_hosts
from harness.sandbox.parallel import available_cores, map_sharing


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
    def pages(self) -> tuple[Page, ...]:
        """All pages, in the order in which they are evaluated."""
        return (*self.controls, *self.variants, *self.breaks)

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
        """The key of the common reports: of what every page's evaluation depends on."""
        facts = (
            engine_facts(self.engine),
            page_facts(self.variant) if self.variant else None,
            [probe.identity for probe in self.catalogue.shared_probes.values()],
            self.catalogue.diagnostic_texts,
        )
        return key_of(COMMON, facts)

    def key(self, page: Page) -> bytes:
        """Return the key of a page's evaluation."""
        return key_of(EVALUATIONS, (self.shared_key, page_facts(page)))

    @property
    def matrix_key(self) -> bytes:
        """The key of everything that the matrix depends on, with the committed files."""
        keys = [self.key(page) for page in self.pages]
        files = self.committed_files.values()
        committed = [(str(file), file.read_bytes() if file.is_file() else None) for file in files]
        complete = sorted(map(str, self.complete))
        facts = (keys, committed, complete, self.catalogue.conventions)
        return key_of(MATRICES, facts)


@dataclass(frozen=True)
class Plan:
    """Everything that is to be evaluated, controls first."""

    choice: Choice
    entries: tuple[Entry, ...]
    """One for each page of the choice, in that order."""
    common: Sequence[RunReport]
    """The reports that are common to all pages; empty if they are not cached."""

    @property
    def breaks(self) -> tuple[Entry, ...]:
        """The entries that are neither controls nor variants."""
        return tuple(entry for entry in self.entries if isinstance(entry.page.front, Break))


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
    for file in choice.committed_files.values():
        read_committed(file)  # report its mistakes before anything runs
    roots, probes = choice.catalogue.roots, choice.catalogue.shared_probes
    homes = {name: _root(probe.path, roots) for name, probe in probes.items()}
    keys = [choice.key(page) for page in choice.pages]
    common = cached_common(cache, choice.shared_key)
    cached = cached_evaluations(cache, keys, common)
    entries = []
    for page, key in zip(choice.pages, keys, strict=True):
        root = _root(page.path, roots)
        foreign = frozenset(name for name, home in homes.items() if home not in (root, BUNDLED))
        entries.append(Entry(page, root, key, cached.get(key) or _work(page, choice), foreign))
    return Plan(choice, tuple(entries), common)


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


def _work(page: Page, choice: Choice) -> Experiment | Report:
    """Return the page's experiment, with all shared probes; a report if it has no site."""
    catalogue, engine, variant = choice.catalogue, choice.engine, choice.variant
    names = [*catalogue.shared_probes, *(probe.name for probe in page.probes)]
    try:
        return prepare(page, catalogue, engine, variant=variant, probes=names)
    except BreaklabError as error:
        if not (engine.foreign or isinstance(error, DoesNotApply)):
            raise
        return report_absence(page, engine, choice.report.variant)


def _root(path: str, roots: Collection[Path]) -> Path:
    """Return the catalogue root that contains a file; the innermost if roots are nested."""
    inside = [root for root in roots if Path(path).is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts))


# ----- Running a plan -----

Progress = Callable[[int, str], None]
"""A function of the number of finished pages and the id of the last one."""


def evaluate_all(
    plan: Plan,
    baseline: Baseline,
    *,
    processes: int | None = None,
    progress: Progress = lambda _done, _page: None,
) -> Evaluations:
    """Run the plan, and return the evaluations.

    Raises EnvironmentProblem if the engine does not load.
    """
    if plan.choice.engine.foreign:
        plan = replace(plan, entries=tuple(_usable(entry, baseline) for entry in plan.entries))
    evaluations: dict[str, Evaluation] = {}
    clean: CleanAlarms = {}
    with closing(_evaluate_in_order(plan, baseline, processes or available_cores())) as results:
        for done, (entry, evaluation) in enumerate(results, start=1):
            evaluations[entry.page.id] = evaluation
            clean = {**evaluation.clean, **clean}
            progress(done, entry.page.id)
    choice, shared = plan.choice, plan.choice.catalogue.shared_probes
    return Evaluations(
        engine=choice.report,
        diagnostics=tuple(baseline.diagnostics),
        breaks=tuple(evaluations[page.id] for page in choice.breaks),
        variants=tuple(evaluations[page.id] for page in choice.variants),
        controls=tuple(evaluations[page.id] for page in choice.controls),
        clean=tuple(alarm for alarms in clean.values() for alarm in alarms),
        shared={name: size_of(probe) for name, probe in shared.items()},
        conventions=choice.catalogue.conventions,
    )


def _usable(entry: Entry, baseline: Baseline) -> Entry:
    """Return the entry with the probes on which the unbroken foreign engine is right."""
    if not isinstance(entry.work, Experiment):
        return entry
    return replace(entry, work=usable(entry.work, baseline))


def _evaluate_in_order(
    plan: Plan, baseline: Baseline, processes: int
) -> Generator[tuple[Entry, Evaluation], None, None]:
    """Yield each entry with its evaluation, in the order of the plan.

    The processes are forked once the baseline is complete, so that none of them repeats it.
    """
    fresh = [entry for entry in plan.entries if not isinstance(entry.work, Evaluation)]
    experiments = [entry.work for entry in fresh if isinstance(entry.work, Experiment)]
    _complete(baseline, experiments, processes)
    close_hosts()  # the libraries that those of this process have imported are not needed again
    common = plan.common
    if experiments and not common:
        shared = list(plan.choice.catalogue.shared_probes.values())
        common = unreached_reports(baseline.clean(experiments[0].clean, shared))
        baseline.cache.put(COMMON, {plan.choice.shared_key: common})
    inherited, indices = (fresh, baseline, common), range(len(fresh))
    processes = min(processes, len(fresh))
    with closing(map_sharing(_evaluate_nth, inherited, indices, processes)) as stored:
        evaluations = _stored(fresh, stored, baseline.cache, common)
        for entry in plan.entries:
            cached = entry.work
            yield entry, cached if isinstance(cached, Evaluation) else next(evaluations)


def _complete(baseline: Baseline, experiments: Sequence[Experiment], processes: int) -> None:
    """Compute the baseline on the probes of all experiments, so that each oracle starts once.

    Probes of different pages may share a name; their verdicts are computed in separate turns.
    """
    waiting = [(item.clean, probe) for item in experiments for probe in item.probes]
    if waiting:
        probes = {probe.identity: probe for _, probe in waiting}
        jobs = baseline.jobs(waiting[0][0], list(probes.values()))
        run_in_parallel(jobs, baseline.cache, processes)
    while waiting:
        turn: dict[str, Probe] = {}
        for _, probe in waiting:
            turn.setdefault(probe.name, probe)
        baseline.complete(waiting[0][0], list(turn.values()))
        waiting = [(clean, probe) for clean, probe in waiting if turn[probe.name] != probe]


def _stored(
    entries: Iterable[Entry], results: Iterable[bytes], cache: Cache, common: Sequence[RunReport]
) -> Iterator[Evaluation]:
    """Put each result into the cache, and yield its evaluation."""
    for entry, data in zip(entries, results, strict=True):
        stored = msgspec.msgpack.decode(data, type=StoredEvaluation, dec_hook=from_parts)
        cache.put(EVALUATIONS, {entry.key: stored})
        yield unpack(stored, common)


def _evaluate_nth(
    index: int, inherited: tuple[Sequence[Entry], Baseline, Sequence[RunReport]]
) -> bytes:
    entries, baseline, common = inherited
    evaluation = pack(_evaluate(entries[index], baseline), common)
    return msgspec.msgpack.encode(evaluation, enc_hook=as_parts)


def _evaluate(entry: Entry, baseline: Baseline) -> Evaluation:
    page, work = entry.page, entry.work
    assert not isinstance(work, Evaluation)
    report = work if isinstance(work, Report) else run_lab(work, baseline)
    is_break = isinstance(page.front, Break)
    if is_break and isinstance(work, Experiment) and not any(run.caught_by for run in report.runs):
        report = add_stages(work, baseline, report)  # a survivor: say where the fault is lost
    evaluation = Evaluation(
        family=page.front.family,
        report=report,
        pardon=page.front.pardon if isinstance(page.front, Break) else None,
        own={probe.name: size_of(probe) for probe in page.probes},
    )
    if isinstance(work, Experiment):
        probes = [probe for probe in work.probes if probe.name not in report.left_out]
        for (name, loss), run in baseline.clean(work.clean, probes).items():
            key = evaluation.probe_key(name)
            alarms = false_alarms("clean", key, loss, run.alarms)
            evaluation.clean.setdefault(key, []).extend(alarms)
    return evaluation
