"""Independent libraries as oracles: their runs of the same probes.

They run in a child process like any engine, unpatched, and their runs are cached: if the cache has
them all, the library is not even imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from harness.core.message import Message, message
from harness.core.run import Run
from harness.core.vocabulary import Loss, Skipped
from harness.engines.engine import Dialect
from harness.pages.probe import Probe, ProbeKind
from harness.runs.cache import Cache
from harness.runs.cached_runs import run_cached
from harness.runs.isolated import EngineDoesNotLoad
from harness.runs.protocol import Job, Step
from harness.sandbox.limits import Limits

ProbeAndLoss = tuple[Probe, Loss | None]


@dataclass(frozen=True)
class Independent:
    """An independent library, treated as an engine that is never patched."""

    dialect: Dialect
    install: str
    kinds: tuple[ProbeKind, ...]
    """The kinds of probes that it can run."""


TORCH = Independent(
    Dialect(
        module="torch",
        leaf="tensor(data, requires_grad=True)",
        value="t.detach().numpy()",
        gradient="None if t.grad is None else t.grad.numpy()",
        backward="t.backward(from_numpy(cotangent.copy()))",
    ),
    install="pip install 'breaklab[torch]'",
    kinds=("gradient", "steps"),
)

HIPS = Independent(
    Dialect(
        module="harness.runs.hips",
        distribution="autograd",
        backward_again="t.backward(cotangent, retain_graph=True)",
    ),
    install="pip install 'breaklab[autograd]'",
    kinds=("gradient",),
)

LIBRARIES = {"torch": TORCH, "autograd": HIPS}

IMPORT_LIMIT = Limits(seconds=120.0, cpu_seconds=120)
"""The first import of PyTorch from a slow disk takes long."""


def why_missing(name: str) -> Message | None:
    """Return why the library cannot run at all, with the remedy; None if it can."""
    library = LIBRARIES[name]
    if find_spec(library.dialect.distribution or library.dialect.module):
        return None
    return message("{library} is not installed: {remedy}", library=name, remedy=library.install)


def run_on_library(
    name: str, pairs: Sequence[ProbeAndLoss], store: Cache
) -> dict[tuple[str, Loss | None], Run | Skipped]:
    """Return the library's run of each pair, by probe name and loss, or why there is none."""
    fit = _fitting(name, pairs)
    if not fit:
        return {}
    if reason := why_missing(name):
        return {(probe.name, loss): Skipped(reason) for probe, loss in fit}
    runs: Sequence[Run | Skipped]
    try:
        runs = run_cached(job_on_library(name, pairs), store)
    except EngineDoesNotLoad as error:
        reason = message(
            "{library} cannot be imported: {failure}", library=name, failure=error.failure.sentence
        )
        runs = [Skipped(reason, repeatable=False)] * len(fit)
    return {(probe.name, loss): run for (probe, loss), run in zip(fit, runs, strict=True)}


def job_on_library(name: str, pairs: Sequence[ProbeAndLoss]) -> Job:
    """Return the job that runs, on the library, those of the pairs that it can run."""
    fit = _fitting(name, pairs)
    probes = {probe.identity: probe for probe, _ in fit}
    place = {identity: index for index, identity in enumerate(probes)}
    steps = tuple(Step(place[probe.identity], loss) for probe, loss in fit)
    dialect = LIBRARIES[name].dialect
    return Job(dialect, "", {}, (), tuple(probes.values()), steps, limits=IMPORT_LIMIT)


def _fitting(name: str, pairs: Sequence[ProbeAndLoss]) -> list[ProbeAndLoss]:
    return [(probe, loss) for probe, loss in pairs if probe.kind in LIBRARIES[name].kinds]
