"""What independent libraries answer, asked once and kept.

An answer depends on the probe's text and leaves, the loss, the library's version and on how we
observe; all of that is its key, so an answer on the disk is never stale. With every answer at hand
the library is not even imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
from platformdirs import user_cache_path

import harness
from harness.diagnostics import Skipped
from harness.engine import Dialect
from harness.leaves import SEED
from harness.probe import Probe
from harness.run import Run
from harness.sandbox import EngineDoesNotLoad, Limits, run_isolated
from harness.words import Loss
from harness.worker import Job

Pair = tuple[Probe, Loss | None]


@dataclass(frozen=True)
class Independent:
    """A library that nobody here wrote, as an engine that is never patched."""

    dialect: Dialect
    distribution: str
    install: str


TORCH = Independent(
    Dialect(
        module="torch",
        leaf="tensor(data, requires_grad=True)",
        value="t.detach().numpy()",
        gradient="None if t.grad is None else t.grad.numpy()",
        backward="t.backward(from_numpy(cotangent.copy()))",
    ),
    distribution="torch",
    install="pip install 'breaklab[torch]'",
)

LIBRARIES = {"torch": TORCH}

IMPORT_LIMIT = Limits(seconds=120.0)
"""A first import of PyTorch from a slow disk takes its time."""


def ask_library(
    name: str, pairs: Sequence[Pair], cache: Path | None = None
) -> dict[tuple[str, Loss | None], Run | Skipped]:
    """The library's run of each pair, by probe name and loss, or why there is none."""
    library = LIBRARIES[name]
    if find_spec(library.dialect.module) is None:
        missing = Skipped(f"{name} is not installed: {library.install}")
        return {(probe.name, loss): missing for probe, loss in pairs}
    folder = cache or user_cache_path("breaklab") / "answers"
    files = {(probe.name, loss): folder / _key(library, probe, loss) for probe, loss in pairs}
    answers: dict[tuple[str, Loss | None], Run | Skipped] = {}
    for known, file in files.items():
        if kept := _recall(file):
            answers[known] = kept
    unknown = [pair for pair in pairs if (pair[0].name, pair[1]) not in answers]
    for pair, run in zip(unknown, _compute(library, unknown), strict=True):
        answers[pair[0].name, pair[1]] = run
        if isinstance(run, Run):
            _keep(files[pair[0].name, pair[1]], run)
    return answers


def _compute(library: Independent, pairs: Sequence[Pair]) -> Sequence[Run | Skipped]:
    if not pairs:
        return []
    probes = tuple({probe.name: probe for probe, _ in pairs}.values())
    place = {probe.name: index for index, probe in enumerate(probes)}
    items = tuple((place[probe.name], loss) for probe, loss in pairs)
    job = Job(library.dialect, "", {}, (), probes, items, ())
    try:
        return run_isolated(job, IMPORT_LIMIT)
    except EngineDoesNotLoad as error:
        return [Skipped(f"{library.distribution} cannot be imported: {error}")] * len(pairs)


def _key(library: Independent, probe: Probe, loss: Loss | None) -> str:
    try:
        release = version(library.distribution)
    except PackageNotFoundError:
        release = "unknown"
    parts = (library.dialect, release, np.__version__, SEED, probe.source, probe.name, loss)
    text = msgspec.json.encode((*parts, _observer()))
    return f"{library.distribution}-{hashlib.sha256(text).hexdigest()[:32]}"


def _observer() -> str:
    """What stands for our own part in an answer: the code that observes."""
    folder = Path(harness.__file__).parent
    code = b"".join((folder / name).read_bytes() for name in ("trial.py", "leaves.py", "run.py"))
    return hashlib.sha256(code).hexdigest()


def _recall(file: Path) -> Run | None:
    """A kept answer; None where there is none that can be read."""
    try:
        return msgspec.msgpack.decode(file.read_bytes(), type=Run)
    except (OSError, ValueError):
        return None


def _keep(file: Path, run: Run) -> None:
    """Write the answer whole or not at all; a disk that takes nothing only costs time."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.msgpack.encode(run))
        Path(name).replace(file)
