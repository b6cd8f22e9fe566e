"""Whether an unbroken foreign engine already behaves like a break of ours."""

from __future__ import annotations

import msgspec

from harness.answer_key.outcome import judge
from harness.core.errors import BreaklabError
from harness.core.run import Run
from harness.engines.engine import Engine, find_engine
from harness.experiment.baseline import Baseline
from harness.experiment.conformance import fit
from harness.experiment.patching import prepare
from harness.experiment.placement import is_wrong
from harness.pages.catalogue import Catalogue
from harness.pages.page import Page


def resembling_probes(
    page: Page, engine: Engine, catalogue: Catalogue, baseline: Baseline
) -> list[str]:
    """Return the page's probes on which the engine is wrong just as ours is with the break.

    Our engine accumulates gradients in the same way. Empty if the engine is right on some probe on
    which the break shows: then it has a different bug.
    """
    fits = fit(engine, catalogue.probes_for(page), baseline)
    names = [name for name, item in fits.items() if item.verdict in ("fits", "bug")]
    wrong = {name for name in names if fits[name].verdict == "bug"}
    if not wrong:
        return []
    variant = catalogue.page(engine.like, "variant") if engine.like else None
    try:
        ours = prepare(page, catalogue, find_engine(), variant=variant, probes=names)
    except BreaklabError:  # the break does not apply to that variant
        return []
    correct = baseline.clean_runs(ours.clean, ours.probes)
    runs = baseline.broken(ours.clean, ours.broken, ours.probes)
    broken = {(run.probe, run.loss): run for run in runs}
    theirs = baseline.clean_runs(engine, ours.probes)
    if any(_differ(broken[pair], correct[pair]) for pair in broken if pair[0] not in wrong):
        return []
    unlike = {pair[0] for pair in broken if _differ(theirs[pair], broken[pair])}
    return [name for name in names if name in wrong - unlike]


def _differ(run: Run, other: Run) -> bool:
    """Whether two runs end differently, apart from shared memory.

    Failures are equal if their phase and their type are.
    """
    if run.failure and other.failure:
        ends = [(failure.phase, failure.type) for failure in (run.failure, other.failure)]
        return ends[0] != ends[1]
    reached = msgspec.structs.replace(run, reached=[0])  # else nothing would be compared
    return is_wrong(judge(reached, other))
