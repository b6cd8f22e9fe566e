"""What looks wrong in an engine: each bug with its root, its place and a similar break."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from harness.answer_key.outcome import MEASUREMENTS
from harness.core.message import Message
from harness.core.report import SiteReport
from harness.core.run import TraceStep
from harness.doctor.matching import BreakMatcher, Observed
from harness.doctor.roots import Feature, Root, extended, features_of, find_roots, place_of
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import Fit
from harness.pages.catalogue import Catalogue
from harness.pages.probe import Probe
from harness.runs.cached_runs import run_cached


class Alike(msgspec.Struct, frozen=True):
    """A break of the catalogue that behaves like the engine."""

    break_: str = msgspec.field(name="break")
    title: str


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
    """The function that these probes run and other probes run least, if there is one."""
    probes: list[str]
    """The other probes that show it."""
    alike: list[Alike]
    """The breaks that give the same wrong numbers on minigrad."""


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
    observed = _observe(engine, judged, bugs, baseline)
    walks = _walks(judged, baseline)
    features = {name: features_of(probe, walks[name]) for name, probe in observed.probes.items()}
    right = [probe.name for probe in judged if probe.name not in bugs]
    sizes = {name: len(walks[name]) or _LOOP for name in bugs}
    roots = find_roots(sizes, right, features)
    called = _called(engine, judged, baseline)
    matcher, listed = BreakMatcher(observed, catalogue, baseline), set[str]()
    defects = []
    for root in roots:
        rest = Root(root.feature, tuple(name for name in root.probes if name not in listed))
        if not rest.probes:
            continue
        explanation = matcher.explain(rest)
        whole = extended(rest, explanation.probes - listed, sizes)
        listed.update(whole.probes)
        defects.append(
            Defect(
                feature=whole.feature,
                probe=whole.probes[0],
                kind=bugs[whole.probes[0]].kind,
                evidence=bugs[whole.probes[0]].reason,
                site=place_of(whole, right, called, engine),
                probes=list(whole.probes[1:]),
                alike=[Alike(page.id, page.title) for page in explanation.pages],
            )
        )
    return defects


_LOOP = 1000
"""The size of a probe that runs in steps: it is less basic than any single backward pass."""


def _observe(
    engine: Engine, probes: Sequence[Probe], wrong: Collection[str], baseline: Baseline
) -> Observed:
    runs, correct = (
        {
            (run.probe, run.loss): run
            for run in run_cached(
                msgspec.structs.replace(baseline.job(clean, probes), measure=MEASUREMENTS),
                baseline.cache,
            )
        }
        for clean in (engine.without_sites(), find_engine())
    )
    by_name = {probe.name: probe for probe in probes}
    return Observed(engine, by_name, frozenset(wrong), runs, correct)


def _walks(probes: Sequence[Probe], baseline: Baseline) -> dict[str, Sequence[TraceStep]]:
    """Return minigrad's backward walk of each probe; empty if it has none."""
    walks: dict[str, Sequence[TraceStep]] = {probe.name: () for probe in probes}
    gradients = [probe for probe in probes if probe.kind == "gradient"]
    for (name, _), run in baseline.inside(find_engine(), gradients).items():
        walks[name] = run.trace
    return walks


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
