"""minigrad with patches, wrong or right, and what the diagnostics say of it.

A change is the id of a page, whose patch is applied, or a patch in the notation of the pages.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module

import msgspec

from harness.core.run import Run
from harness.core.vocabulary import Loss, Skipped, Verdict
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.engines.engine import Engine, find_engine
from harness.engines.library import Library
from harness.experiment.baseline import job_for
from harness.experiment.patching import put
from harness.pages.probe import Probe, read_probes
from harness.patch import apply_patch, parse_patch
from harness.runs.cached_runs import LIBRARIES
from harness.runs.isolated import run_isolated
from harness.runs.observer import observe
from harness.runs.trial import Trial
from harness.sandbox.limits import Limits
from tests.harness.bundled import CATALOGUE

NAMED = {diagnostic.name: diagnostic for diagnostic in DIAGNOSTICS}


def edit(scope: str, old: str, new: str = "") -> str:
    """A patch that replaces `old` by `new` in a function; without `new`, it is removed."""
    removed = "".join(f"-{line}\n" for line in old.splitlines())
    return f"@@ {scope} @@\n{removed}" + "".join(f"+{line}\n" for line in new.splitlines())


_FLOAT32 = "array if (array := np.array(data, dtype)).dtype != float else array.astype(np.float32)"
LEAVES_IN_FLOAT32 = edit("Tensor.__init__", "np.array(data, dtype)", _FLOAT32)
"""Only what a program passes is in float32: a correct engine."""


def engine_with(*changes: str) -> Engine:
    engine = find_engine()
    for change in changes:
        if "@@" in change:
            patched = apply_patch(parse_patch(change, path="change", line=1), engine.sources)
        else:
            patched = put(CATALOGUE.page(change), engine)
        engine = engine.patched(patched)
    return engine.without_sites()


def runs_of(
    engine: Engine, probes: Sequence[Probe], measure: Sequence[str] = tuple(NAMED)
) -> list[tuple[Probe, Run]]:
    measurements = tuple(m for name in measure if (m := NAMED[name].measurement))
    job = job_for(engine, probes, Limits(seconds=600))
    job = msgspec.structs.replace(job, measure=measurements)
    runs = run_isolated(job)
    return [(probes[step.probe], run) for step, run in zip(job.steps, runs, strict=True)]


def read(text: str) -> Probe:
    (probe,) = read_probes("import numpy as np\n\n\n" + text, "p.py")
    return probe


def library_results(probe: Probe, loss: Loss | None) -> dict[str, Run | Skipped]:
    """The results of PyTorch and HIPS autograd, computed once in this process."""
    key = probe.source, probe.name, loss
    if key not in _answers:
        _answers[key] = {name: observe(Trial(_library(name), probe), loss) for name in LIBRARIES}
    return _answers[key]


@cache
def _library(name: str) -> Library:
    dialect = LIBRARIES[name].dialect
    return Library(dialect, import_module(dialect.module))


_answers: dict[tuple[str, str, Loss | None], dict[str, Run | Skipped]] = {}


def verdict(name: str, text: str, *changes: str, loss: Loss = "weighted") -> Verdict:
    """What the diagnostic says of the probe `text` on minigrad with these changes."""
    probe = read(text)
    runs = runs_of(engine_with(*changes), [probe], [name])
    run = next(run for _, run in runs if run.loss == loss)
    return evaluate(NAMED[name], Observation(probe, run, library_results(probe, loss)))
