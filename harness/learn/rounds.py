"""The probes that judge a repair, in rounds.

These are the page's probes; all shared probes that run what the break or the learner changed; and
the same probes with other lengths and numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.context import Context
from harness.experiment.patching import Experiment, put
from harness.pages.probe import Leaf, Probe
from harness.runs.cache import Cache

LENGTHS = range(3, 8)
"""The lengths to draw. With shorter axes, normalised values do not depend on the input at all, and
nothing but rounding is left of their gradients."""

LARGEST_LEAF = 1000
"""The most elements of a leaf with drawn lengths."""


@dataclass(frozen=True)
class Round:
    """Probes to run on the copy, and what to judge them with."""

    probes: Sequence[Probe]
    baseline: Baseline
    drawn: bool = False
    """Whether the lengths of their inputs were drawn."""


def rounds(experiment: Experiment, context: Context, generator: random.Random) -> Iterator[Round]:
    """Yield the rounds, each when it is needed; `experiment.broken` is the copy."""
    baseline, own = context.baseline, experiment.probes
    names = {probe.name for probe in own}
    yield Round(own, baseline)
    shared = context.catalogue.shared_probes.values()
    others = [probe for probe in shared if probe.name not in names]
    broken = put(experiment.page, experiment.clean)
    reached = {
        step.probe
        for sources in (broken.sources, experiment.broken.sources)
        for step in baseline.reaching(experiment.clean, sources, others)
    }
    others = [probe for index, probe in enumerate(others) if index in reached]
    yield Round(others, baseline)
    passing = Baseline(Cache(None), (), baseline.limits)
    drawn = [fresh(probe, generator) for probe in (*own, *others)]
    reference = find_engine() if experiment.clean.foreign else experiment.clean
    runnable = _runnable([probe for probe in drawn if probe], reference, passing)
    yield Round(runnable, passing, drawn=True)


def fresh(probe: Probe, generator: random.Random) -> Probe | None:
    """Return the probe with other lengths and other numbers; None if it draws no input.

    Equal lengths stay equal, and so do 0 and 1, which have a meaning of their own.
    """
    lengths = {n for leaf in probe.leaves for n in leaf.shape or () if n > 1}
    drawn = {n: generator.choice(LENGTHS) for n in sorted(lengths)}

    def redrawn(leaf: Leaf) -> Leaf:
        shape = leaf.shape
        return leaf if shape is None else replace(leaf, shape=tuple(drawn.get(n, n) for n in shape))

    leaves = tuple(map(redrawn, probe.leaves))
    shapes = [leaf.shape for leaf in leaves if leaf.shape is not None]
    if probe.kind != "gradient" or not shapes or max(map(prod, shapes)) > LARGEST_LEAF:
        return None
    # The numbers depend on the name.
    return replace(probe, name=f"{probe.name}-{generator.randrange(10**6)}", leaves=leaves)


def _runnable(probes: Sequence[Probe], engine: Engine, baseline: Baseline) -> list[Probe]:
    """Return the probes that an engine can run: the code of others states their lengths."""
    runs = baseline.clean_runs(engine, probes)
    failed = {name for (name, _), run in runs.items() if run.failure}
    return [probe for probe in probes if probe.name not in failed]
