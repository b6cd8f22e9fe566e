"""What looks wrong in an engine: each bug with its root, its place and the breaks like it.

A break is like it if it gives the same wrong numbers on minigrad (`harness.doctor.matching`), or if
undoing it in the engine makes the finding right (`harness.doctor.undoing`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from harness.core.message import Message
from harness.core.report import SiteReport
from harness.core.run import TraceStep
from harness.doctor.matching import BreakMatcher, Observed
from harness.doctor.roots import (
    Feature,
    Root,
    Use,
    extended,
    features_of,
    find_roots,
    has_own_rules,
    place_of,
)
from harness.doctor.undoing import BreakUndoer
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import SECOND_BACKWARD, Fit
from harness.pages.catalogue import Catalogue
from harness.pages.probe import Probe


class Alike(msgspec.Struct, frozen=True):
    """A break of the catalogue that behaves like the engine."""

    break_: str = msgspec.field(name="break")
    title: str
    only_in: str = ""
    """The op outside which the engine does not behave like it; empty if it does everywhere."""
    is_undone: bool = False
    """Whether the break is undone at the finding's site, which makes most of its probes right."""


class Defect(msgspec.Struct, frozen=True):
    """Something that looks wrong in the engine: the probes that show it, and what they share."""

    feature: Feature | None
    """What the probes that show it have in common, such as an op; None for a single probe."""
    probe: str
    """The most basic probe that shows it."""
    kind: str
    """What is wrong on that probe: crash, shape, value ..."""
    evidence: Message
    """The numbers on that probe, or the failure."""
    site: SiteReport | None
    """Where a break is undone; else the function that these probes run and other probes run least,
    if there is one."""
    probes: list[str]
    """The other probes that show it."""
    alike: list[Alike]
    """The breaks that give the same wrong numbers on minigrad, or are undone."""
    is_partial: bool = False
    """Whether most of the probes that use the op are right: it is wrong on some inputs only."""


def find_defects(
    engine: Engine,
    probes: Sequence[Probe],
    fits: Mapping[str, Fit],
    catalogue: Catalogue,
    baseline: Baseline,
) -> list[Defect]:
    """Return the bugs that the probes show, grouped by their roots, the most basic first."""
    bugs = {name: item for name, item in fits.items() if item.verdict == "bug"}
    if not bugs:
        return []
    judged = [probe for probe in probes if fits[probe.name].verdict in ("fits", "bug")]
    walks: dict[str, Sequence[TraceStep]] = {probe.name: () for probe in judged}
    gradients = [probe for probe in judged if probe.kind == "gradient"]
    inside = baseline.inside(find_engine(), gradients)
    walks |= {name: run.trace for (name, _), run in inside.items()}
    features = {probe.name: features_of(probe, walks[probe.name]) for probe in judged}
    observed = _observe(engine, judged, bugs, features, baseline)
    if engine.dialect.kind == "scalars":
        own = {name for name in bugs if has_own_rules(features[name], engine)}
        bugs = {name: item for name, item in bugs.items() if name in own} or bugs
    right = [probe.name for probe in judged if fits[probe.name].verdict == "fits"]
    sizes = {name: len(walks[name]) or _LOOP for name in bugs}
    passes = [name for name in bugs if bugs[name].kind == SECOND_BACKWARD]
    single = {name: size for name, size in sizes.items() if name not in passes}
    roots = find_roots(single, right, features)
    if passes:
        # First that of two losses, which differ in what the root of the graph got before.
        last_first = sorted(passes, reverse=True)
        roots.append(Root(Feature("", Use.SECOND_BACKWARD), tuple(last_first)))
    called = _called(engine, judged, baseline)
    matcher = BreakMatcher(observed, catalogue, baseline)
    undoer = BreakUndoer(observed, catalogue, baseline, called)
    listed = set[str]()
    defects = []
    for root in roots:
        rest = Root(root.feature, tuple(name for name in root.probes if name not in listed))
        if not rest.probes:
            continue
        explanation = matcher.explain(rest)
        if not explanation.pages:
            explanation = undoer.explain(rest)
        whole = extended(rest, (explanation.probes & bugs.keys()) - listed, sizes)
        listed.update(whole.probes)
        defects.append(
            Defect(
                feature=whole.feature,
                probe=whole.probes[0],
                kind=bugs[whole.probes[0]].kind,
                evidence=bugs[whole.probes[0]].reason,
                site=explanation.site or place_of(whole, right, called, engine),
                probes=list(whole.probes[1:]),
                alike=[
                    Alike(page.id, page.title, explanation.only_in, explanation.site is not None)
                    for page in explanation.pages
                ],
                is_partial=_is_partial(whole, right, features),
            )
        )
    return defects


def _is_partial(
    root: Root, right: Collection[str], features: Mapping[str, AbstractSet[Feature]]
) -> bool:
    """Whether more probes use the finding's op and are right than show the finding."""
    if root.feature is None or not root.feature.op or root.feature.detail:
        return False
    return sum(root.feature in features[name] for name in right) > len(root.probes)


_LOOP = 1000
"""The size of a probe that runs in steps: it is less basic than any single backward pass."""


def _observe(
    engine: Engine,
    probes: Sequence[Probe],
    wrong: Collection[str],
    features: Mapping[str, AbstractSet[Feature]],
    baseline: Baseline,
) -> Observed:
    by_name = {probe.name: probe for probe in probes}
    runs = baseline.covered(engine, probes)
    correct = baseline.bare().clean_runs(find_engine(), probes)
    return Observed(engine, by_name, frozenset(wrong), runs, correct, features)


def _called(
    engine: Engine, probes: Sequence[Probe], baseline: Baseline
) -> dict[str, frozenset[str]]:
    """Return the functions of the engine that each probe calls, if they are known."""
    called: dict[str, frozenset[str]] = {}
    names = [probe.name for probe in probes for _ in probe.losses]
    for name, functions in zip(names, baseline.coverage(engine, probes), strict=True):
        if functions is not None:
            called[name] = called.get(name, frozenset()) | functions
    return called
