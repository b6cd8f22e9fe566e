"""minigrad with a few lines of its text replaced, and what the diagnostics say of it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module

import msgspec

from harness.core.run import Run
from harness.core.vocabulary import Loss, Skipped, Verdict
from harness.diagnostics import DIAGNOSTICS, Observation, evaluate
from harness.engines.engine import Engine, find_engine
from harness.engines.library import Library
from harness.experiment.baseline import job_for
from harness.pages.probe import Probe, read_probes
from harness.runs.cached_runs import LIBRARIES
from harness.runs.isolated import run_isolated
from harness.runs.observer import observe
from harness.runs.trial import Trial
from harness.sandbox.limits import Limits

Edit = tuple[str, str, str]
"""A file of minigrad, a text in it, and its replacement."""

NAMED = {diagnostic.name: diagnostic for diagnostic in DIAGNOSTICS}

_SINGLE: Edit = (
    "tensor.py",
    "def tensor(",
    "def _single(a):\n"
    "    a = np.asarray(a)\n"
    "    return a.astype(np.float32) if a.dtype == np.float64 else a\n\n\n"
    "def tensor(",
)
FLOAT32: Sequence[Edit] = (
    ("tensor.py", "= np.asarray(data), requires_grad", "= _single(data), requires_grad"),
    _SINGLE,
)
"""Everything in float32, whatever it is given: another engine, and a correct one."""
LEAVES_IN_FLOAT32: Sequence[Edit] = (
    ("tensor.py", "_fill(np.array(data, dtype), r", "_fill(_single(np.array(data, dtype)), r"),
    _SINGLE,
)
"""Only what a program passes is in float32: a correct engine, too."""


def minigrad_with(*edits: Edit) -> Engine:
    engine = find_engine()
    sources = dict(engine.sources)
    for file, old, new in edits:
        path = f"minigrad/{file}"
        assert sources[path].count(old) == 1, (file, old)
        sources[path] = sources[path].replace(old, new)
    return replace(engine, sources=sources)


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


def asked_of_libraries(probe: Probe, loss: Loss | None) -> dict[str, Run | Skipped]:
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


def verdict(name: str, text: str, *edits: Edit, loss: Loss = "weighted") -> Verdict:
    """What the diagnostic says of the probe `text` on minigrad with these edits."""
    probe = read(text)
    runs = runs_of(minigrad_with(*edits), [probe], [name])
    run = next(run for _, run in runs if run.loss == loss)
    return evaluate(NAMED[name], Observation(probe, run, asked_of_libraries(probe, loss)))
