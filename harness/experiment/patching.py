"""From a page and an engine to an experiment: which blocks are the patch, and what it changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import msgspec

from harness.core.errors import (
    BreaklabError,
    DoesNotApply,
    HunkError,
    PageError,
    UsageError,
    as_message,
)
from harness.core.message import Message, lines, message
from harness.core.report import EngineReport, SiteReport
from harness.core.site import Site
from harness.core.vocabulary import LOSSES, Loss, Outcome
from harness.engines.engine import Engine
from harness.pages.catalogue import Catalogue
from harness.pages.front_matter import Break, Operator, PatchFront, ProbedFront, Question
from harness.pages.page import Fence, Page
from harness.pages.probe import Probe
from harness.patch import (
    Patch,
    Patched,
    apply_at_one,
    apply_patch,
    combine,
    parse_patch,
    reverse,
)

DISGUISED: Outcome = "disguised-correct"

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:e-?\d+)?")
_BLOCK_OPTION = re.compile(r"portable|engine=[\w.-]+|sites=[1-9]\d*")


@dataclass(frozen=True)
class PatchedEngine:
    """A page's patch applied to an engine; nothing has been executed yet."""

    page: Page
    variant: str | None
    clean: Engine
    broken: Engine
    diff: str

    @property
    def engine(self) -> EngineReport:
        """The engine, for reports."""
        report = self.clean.report(self.variant)
        return msgspec.structs.replace(report, foreign=self.foreign)

    @property
    def foreign(self) -> bool:
        """Whether the page is about another engine: its statements are compared, not required."""
        return self.clean.foreign and not self.page.is_about(self.clean.name)

    @property
    def sites(self) -> list[SiteReport]:
        """Where the engine is patched, for reports."""
        return site_reports(self.broken.sites)


@dataclass(frozen=True)
class Experiment(PatchedEngine):
    """A patched engine and the probes to run on it."""

    probes: tuple[Probe, ...]
    guards: tuple[Probe, ...] = ()
    """Probes on which the page says that the break does not show: a patch that changes a foreign
    engine's result on one of them is not the change that the page describes."""
    stand_ins: Mapping[str, Probe] = field(default_factory=dict)
    """Probes that replace the named ones on a foreign engine that cannot run those."""
    left_out: Mapping[str, Message] | None = None
    """Probes that cannot be used to judge the engine, and why; None before they are known."""
    questions: tuple[Question, ...] = ()
    """The page's questions, which are about its own probes on our engine without a variant."""
    in_place: Page | None = None
    """The variant that adds gradients in place, if the break is to be run on it as well."""
    rewritten: bool = False
    """Whether `broken` was written by a person, so that anything may differ from the clean engine:
    then every run counts as reaching the change, and the page's claims do not apply."""

    @cached_property
    def _by_name(self) -> dict[str, Probe]:
        probes = *self.stand_ins.values(), *self.guards, *self.probes
        return {probe.name: probe for probe in probes}

    def probe(self, name: str) -> Probe:
        """Return the probe of that name."""
        return self._by_name[name]

    def with_guards(self) -> Experiment:
        """Return the experiment that also runs its guards."""
        names = {probe.name for probe in self.probes}
        others = tuple(probe for probe in self.guards if probe.name not in names)
        return replace(self, probes=self.probes + others) if others else self

    @cached_property
    def numbers(self) -> frozenset[float]:
        """The numbers in the lines that the patch changes."""
        lines = [line[1:] for line in self.diff.splitlines() if line[:1] in "+-"]
        return frozenset(map(float, _NUMBER.findall("\n".join(lines))))

    @property
    def broken_in_place(self) -> Engine | None:
        """The variant `in_place` with the break; None without one, or if the patch has no site."""
        if self.in_place is None:
            return None
        try:
            variant = clean_engine(self.clean, self.in_place)
            return variant.patched(put(self.page, variant))
        except (DoesNotApply, HunkError):
            return None

    def expected(self, probe: str, loss: Loss | None) -> Outcome | None:
        """Return the outcome that the page states for engines with this kind of accumulation."""
        like = self.clean.like if self.foreign else None
        replaced = (name for name, other in self.stand_ins.items() if other.name == probe)
        probe = next(replaced, probe)
        return self.page.expected(self.variant or like, probe, loss)

    def shows_on(self, probe: str) -> bool:
        """Whether the page states that the break shows on a probe, with some loss."""
        stated = {self.expected(probe, loss) for loss in (*LOSSES, None)}
        return bool(stated & {"crash", "silent-corruption"})

    @property
    def unpatched(self) -> Engine:
        """The clean engine; its sites are the places that the patch changes."""
        sites = tuple(site.undone() for site in self.broken.sites)
        return replace(self.clean, sites=sites)


def prepare(
    page: Page,
    catalogue: Catalogue,
    engine: Engine,
    *,
    variant: Page | None = None,
    probes: Sequence[str] = (),
) -> Experiment:
    """Put the page's patch into the engine, after that of the variant; nothing is executed.

    Raises PageError and HunkError for a page that cannot be used, DoesNotApply if the engine has no
    site, UsageError for unknown probes.
    """
    clean = clean_engine(engine, variant)
    patched = put(page, clean)
    experiment = Experiment(
        page=page,
        variant=variant.id if variant else None,
        clean=clean,
        broken=clean.patched(patched),
        diff=patched.diff(),
        probes=catalogue.probes_for(page, probes),
    )
    if experiment.foreign:
        guards, stand_ins = _guards(experiment, catalogue), _stand_ins(experiment, catalogue)
        return replace(experiment, guards=guards, stand_ins=stand_ins)
    if isinstance(page.front, Break) and not (variant or probes):
        return replace(experiment, questions=page.front.ask)
    return experiment


def with_in_place(experiment: Experiment, catalogue: Catalogue) -> Experiment:
    """Return the experiment that also runs on the variant that adds gradients in place.

    Only a break that is put into minigrad itself does.
    """
    engine_is_ours = not (experiment.clean.foreign or experiment.variant)
    variant = catalogue.in_place if engine_is_ours else None
    return replace(experiment, in_place=variant) if variant else experiment


def _guards(experiment: Experiment, catalogue: Catalogue) -> tuple[Probe, ...]:
    """Return the probes on which the page says that the break does not show."""
    return tuple(
        probe
        for probe in catalogue.probes_for(experiment.page)
        if any(experiment.expected(probe.name, loss) == DISGUISED for loss in probe.losses)
    )


def _stand_ins(experiment: Experiment, catalogue: Catalogue) -> dict[str, Probe]:
    """Return the probes that may replace probes of the experiment and are not among these."""
    names = {probe.name for probe in experiment.probes}
    return {
        name: catalogue.shared_probes[other]
        for name, other in catalogue.conventions.stand_ins.items()
        if name in names and other not in names and other in catalogue.shared_probes
    }


def clean_engine(engine: Engine, variant: Page | None) -> Engine:
    """Return the engine that a break is put into: this one, or a variant of it."""
    return engine if variant is None else engine.patched(put(variant, engine))


def site_reports(sites: Iterable[Site]) -> list[SiteReport]:
    """Return the sites, for reports."""
    return [SiteReport(site.file, site.line, site.scope) for site in sites]


def put(page: Page, engine: Engine) -> Patched:
    """Return the engine's sources with the page's patch.

    Raises PageError and HunkError for a patch that cannot be read, DoesNotApply if it has no site,
    UsageError for a page that has no patch.
    """
    if isinstance(page.front, Operator):
        raise UsageError(
            message(
                "`{page}` is {kind}: it is for rules of your own, not for an engine",
                page=page.id,
                kind=as_message(page.front.noun),
            ),
            message(
                "`harness show {page}` shows it; `pytest --breaks-rules` uses it", page=page.id
            ),
        )
    blocks = page.diffs(engine.name)
    if blocks and not (engine.foreign or engine.names):
        sources = tuple(engine.sources.items())
        return _put_blocks(page.path, tuple(blocks), page.sites, sources)
    candidates = patches(page, engine)
    if not candidates and not isinstance(page.front, PatchFront):
        kind = page.front.kind
        raise UsageError(
            message(
                "`{page}` is {kind}: it has no patch",
                page=page.id,
                kind=as_message(page.front.noun),
            ),
            message("`harness {kind} {page}` runs it", kind=kind, page=page.id),
        )
    if not candidates:
        raise PageError(
            page.path,
            page.body_line,
            message("no patch for the engine {engine}", engine=engine.name),
            "name the engine that the page is about with --engine"
            if page.is_about_another(engine.name)
            else "write the change as a ```diff block under `## The break`",
        )
    return apply_first(candidates, engine.sources)


@lru_cache(maxsize=128)
def _put_blocks(
    path: str, blocks: tuple[Fence, ...], sites: int | None, sources: tuple[tuple[str, str], ...]
) -> Patched:
    """Return our engine's sources with a patch, cached: variants are applied many times."""
    return apply_patch(_parse_blocks(path, blocks, sites), dict(sources))


def undone(page: Page, engine: Engine) -> Iterator[Patched]:
    """Yield a foreign engine's sources with the page's patch undone, at one place at a time.

    Each patch for such an engine is reversed. One that cannot be is left out, for example since it
    only deletes lines, or would match any code.
    """
    from harness.patch.portable import loosen

    names, places = engine.names, engine.gradient_arguments
    for block in page.portable:
        with suppress(HunkError):
            patch = loosen(reverse(_read(page, [block])), names, places)
            if not all(
                hunk.before.expression and hunk.before.expression.hole for hunk in patch.hunks
            ):
                yield from apply_at_one(patch, engine.sources)


def applies(page: Page, engine: Engine) -> bool:
    """Whether the page's patch has a site in the engine, and the result is valid Python."""
    try:
        return isinstance(page.front, ProbedFront) and bool(put(page, engine).sites)
    except BreaklabError:
        return False


# ----- Blocks -----


def patches(page: Page, engine: Engine) -> list[Patch]:
    """Return the patches to try on this engine, in order; empty if the page has none for it.

    The blocks `engine=NAME` are for that engine alone. On any other foreign engine the blocks
    marked `portable` are tried in turn; if there are none, the block for our engine is used.

    Raises HunkError for a block that cannot be read.
    """
    portable = page.portable
    if portable and engine.foreign and not page.diffs_for(engine.name):
        from harness.patch.portable import loosen

        places = engine.gradient_arguments
        return [loosen(_read(page, [block]), engine.names, places) for block in portable]
    blocks = page.diffs(engine.name)
    if not blocks:
        return []
    patch = _read(page, blocks, engine)
    if engine.names:
        from harness.patch.portable import rename

        patch = rename(patch, engine.names)
    return [patch]


def apply_first(candidates: Sequence[Patch], sources: Mapping[str, str]) -> Patched:
    """Apply the first patch that has a site.

    Raises DoesNotApply, with what each patch looked for, if none has. If there are several patches,
    an ambiguous one counts as having no site.
    """
    problems: list[DoesNotApply | HunkError] = []
    for patch in candidates:
        try:
            return apply_patch(patch, sources)
        except (DoesNotApply, HunkError) as error:
            if len(candidates) == 1:
                raise
            problems.append(error)
    none = message(
        "none of the {count} portable blocks has a site in this engine", count=len(problems)
    )
    unmatched = [problem for problem in problems if isinstance(problem, DoesNotApply)]
    nearest = min(unmatched, key=lambda problem: problem.absent, default=None)
    raise DoesNotApply(
        nearest.reason if nearest else str(none),
        lambda: (
            lines([none, *(p.complaint for p in problems)]),
            as_message("add a diff block for this engine"),
        ),
        absent=nearest is not None and nearest.absent,
    )


def check_blocks(page: Page) -> Iterator[PageError]:
    """Yield the mistakes in blocks for other engines, which runs on ours do not show."""
    from harness.patch.portable import loosen

    for block in page.fences:
        if block.info[:1] != ("diff",) or len(block.info) == 1:
            continue
        for word in block.info[1:]:
            if not _BLOCK_OPTION.fullmatch(word):
                problem = message("`{word}` after ```diff is unknown", word=word)
                remedy = "write `portable` or `engine=NAME`, optionally followed by `sites=2`"
                yield PageError(page.path, block.line - 1, problem, remedy)
        try:
            loosen(_read(page, [block]), {})
        except PageError as error:
            yield error


def _read(page: Page, blocks: Sequence[Fence], engine: Engine | None = None) -> Patch:
    """Return the blocks as one patch, with the number of sites that they state for the engine."""
    ours = engine is not None and not engine.foreign
    return _parse_blocks(page.path, tuple(blocks), page.sites if ours else None)


@lru_cache(maxsize=512)
def _parse_blocks(path: str, blocks: tuple[Fence, ...], sites: int | None) -> Patch:
    """Return the blocks as one patch; `sites` is their number if the blocks do not state one."""
    parts = [parse_patch(block.text, path=path, line=block.line) for block in blocks]
    stated = [int(w.removeprefix("sites=")) for b in blocks for w in b.info if "sites=" in w]
    return combine(parts, sum(stated) if stated else sites)
