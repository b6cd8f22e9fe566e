"""What looks wrong in an engine: each bug with its root, its place and the breaks like it.

A break is like it if it gives the same wrong numbers on minigrad (`harness.doctor.matching`), or if
undoing it in the engine makes the finding right (`harness.doctor.undoing`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from harness.core.message import Message
from harness.core.report import SiteReport
from harness.core.run import FailureOrigin, Run, TraceStep
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
from harness.experiment.comparison import has_wrong_output, is_right_where_finite
from harness.experiment.conformance import SECOND_BACKWARD, Fit
from harness.pages.catalogue import Catalogue
from harness.pages.probe import Probe
from harness.patch.scope import OPERATIONS, is_operation


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
    """Where a break is undone; otherwise, the function, if any, that these probes run and other
    probes run least."""
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
    features: dict[str, AbstractSet[Feature]] = {
        probe.name: features_of(probe, walks[probe.name]) for probe in judged
    }
    observed = _observe(engine, judged, bugs, features, baseline)
    for probe in judged:
        features[probe.name] = _of_failure(features[probe.name], probe, observed)
    if engine.dialect.kind == "scalars":
        own = {name for name in bugs if has_own_rules(features[name], engine)}
        bugs = {name: item for name, item in bugs.items() if name in own} or bugs
    by_name = {probe.name: probe for probe in judged}
    right = [probe.name for probe in judged if fits[probe.name].verdict == "fits"]
    sizes = {name: len(walks[name]) or _LOOP for name in bugs}
    passes = [name for name in bugs if bugs[name].kind == SECOND_BACKWARD]
    stages = {name: _stage(by_name[name], observed) for name in bugs}
    sound: dict[Stage, list[str]] = dict.fromkeys(("output", "gradient", "edge"), right)
    sound["output"] = [*right, *(name for name in bugs if stages[name] != "output")]
    roots = [
        root
        for stage, correct in sound.items()
        for root in find_roots(
            {n: sizes[n] for n in bugs if stages[n] == stage and n not in passes}, correct, features
        )
    ]
    roots.sort(key=lambda root: (sizes[root.probes[0]], root.probes[0]))
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
                is_partial=_is_partial(whole, sound[stages[whole.probes[0]]], features),
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


Stage = Literal["output", "gradient", "edge"]
"""What is wrong first: the output; a gradient; a gradient only where it is not finite. One cause
rarely shows in two of them."""


def _stage(probe: Probe, observed: Observed) -> Stage:
    pairs = [(probe.name, loss) for loss in probe.losses]
    runs = [(observed.runs[pair], observed.correct[pair]) for pair in pairs]
    if any(_fails_forward(run) or has_wrong_output(run, correct) for run, correct in runs):
        return "output"
    return (
        "edge" if all(is_right_where_finite(run, correct) for run, correct in runs) else "gradient"
    )


def _fails_forward(run: Run) -> bool:
    return _forward_failure(run) is not None


def _forward_failure(run: Run) -> FailureOrigin | None:
    """Return where the forward pass failed; None if it did not."""
    origin = run.failure.origin if run.failure else None
    return origin if origin and not origin.in_backward else None


def _of_failure(
    features: AbstractSet[Feature], probe: Probe, observed: Observed
) -> AbstractSet[Feature]:
    """Return the features of the op in whose method the forward pass failed; all if unknown."""
    runs = [observed.runs[probe.name, loss] for loss in probe.losses]
    names = [
        name
        for run in runs
        if (origin := _forward_failure(run))
        for name in origin.function.split(".")
    ]
    own = {
        feature
        for feature in features
        if feature.op in OPERATIONS and any(is_operation(name, feature.op) for name in names)
    }
    return own or features


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
