"""What the main process and a child exchange: a task, and the frames that answer it.

Everything is a plain record in msgpack, which is decoded against its type; nothing is unpickled or
evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from harness.core.measurement import Measurement, MeasurementForm, Quantity
from harness.core.run import (
    CREATED,
    GRAD,
    MODULE_LOG,
    REAL,
    TRAINING_FLAGS,
    Array,
    Failure,
    Run,
    failure_of,
)
from harness.core.site import INSIDE, MARKER, Hooks, Site
from harness.core.vocabulary import Loss, Phase
from harness.engines.engine import Dialect
from harness.engines.survey import Survey, SurveyStep
from harness.pages.probe import Leaf, Probe
from harness.sandbox.frames import LARGEST_PAYLOAD, Frame
from harness.sandbox.limits import Limits

StructType = TypeVar("StructType", bound=msgspec.Struct)

COMPARED = "compared"
"""The number of a verdict without an alarm, from the check that a catalogue brings."""

VERDICT_FORM = MeasurementForm(numbers=(Quantity(COMPARED),), judges=True)
"""What the check of a catalogue's diagnostic may return."""

SEED = 20260
"""Everything random in a probe comes from this seed, the probe's name and the leaf's name."""


class Recorded(StrEnum):
    """What a job records about its runs."""

    RESULTS = "results"
    """Everything that can be compared with another run, and which sites were executed."""
    INSIDE = "inside"
    """Only the trail of the changed functions and the backward walk."""
    CALLS = "calls"
    """The results, and the engine's functions that were called."""


class JobStep(NamedTuple):
    """A run to make."""

    probe: int
    """The index of the probe in the job."""
    loss: Loss | None


class Job(msgspec.Struct, frozen=True, tag="job"):
    """A task: load an engine, and run probes on it."""

    dialect: Dialect
    root: str
    sources: dict[str, str]
    """The engine's files; empty for an installed library."""
    sites: tuple[Site, ...]
    probes: tuple[Probe, ...]
    steps: tuple[JobStep, ...]
    """What to run, in order."""
    records: Recorded = Recorded.RESULTS
    measure: tuple[Measurement, ...] = ()
    """What to measure by running the engine again."""
    limits: Limits = Limits()
    base: dict[str, str] = {}
    """The unpatched files of our own engine, which a host has already loaded; otherwise empty."""
    alone: bool = False
    """Give every run its own process: the engine may keep state between runs."""

    @property
    def pairs(self) -> list[tuple[str, Loss | None]]:
        """The name of the probe and the loss of each step."""
        return [(self.probes[step.probe].name, step.loss) for step in self.steps]

    def only(self, positions: Iterable[int]) -> Job:
        """Return the job with only the steps at these positions, in this order."""
        return msgspec.structs.replace(self, steps=tuple(self.steps[at] for at in positions))

    def trimmed(self) -> Job:
        """Return the job without the probes that no step runs."""
        used = sorted({step.probe for step in self.steps})
        place = {index: new for new, index in enumerate(used)}
        return msgspec.structs.replace(
            self,
            probes=tuple(self.probes[index] for index in used),
            steps=tuple(step._replace(probe=place[step.probe]) for step in self.steps),
        )

    def may_share(self, one: int, other: int) -> bool:
        """Whether the probes with these indices may run in one process, one after the other.

        A shared probe leaves our own engine unchanged unless it fails, and never changes an
        installed library. Any other probe may change them, which would affect the next run and
        what is stored of it.
        """
        first, second = self.probes[one], self.probes[other]
        return not self.alone and (one == other or (first.shared and second.shared))

    @property
    def hooks(self) -> Hooks:
        """What the engine's code calls at its sites."""
        return INSIDE if self.records is Recorded.INSIDE else MARKER


class Program(msgspec.Struct, frozen=True, tag="program"):
    """A task: a Python program that prints, and its place in a file, for tracebacks."""

    source: str
    path: str
    line: int
    needs: tuple[str, ...] = ()
    """The modules that it imports besides NumPy and the engine."""
    limits: Limits = Limits()
    root: str = ""
    sources: dict[str, str] = {}
    """The files of the reference engine, below `root`, if it is not the one beside the harness."""


class ProgramOutput(msgspec.Struct, frozen=True):
    """A message: bytes that were written to standard output."""

    data: bytes


class ProgramEnd(msgspec.Struct, frozen=True):
    """The last message: the program has ended, with a failure or without."""

    failure: Failure | None = None


ChildTask = Job | Program | Survey
"""What a child is to do."""


class EngineLoaded(msgspec.Struct, frozen=True):
    """The first reply to a job: the import of the engine has succeeded or failed."""

    failure: Failure | None = None
    forks: bool = False
    """Whether the child computes its runs in forks, so that they do not affect it."""


ChildReply = EngineLoaded | Run | ProgramOutput | ProgramEnd | SurveyStep

KINDS: dict[bytes, type[ChildReply]] = {
    b"L": EngineLoaded,
    b"R": Run,
    b"P": ProgramOutput,
    b"E": ProgramEnd,
    b"V": SurveyStep,
}
"""Replies by the kind of their frames."""

_BYTES = {kind: byte for byte, kind in KINDS.items()}


def encode_reply(reply: ChildReply) -> Frame:
    """Return the frame of a reply. Raises msgspec's error for a text with surrogates."""
    return Frame(_BYTES[type(reply)], msgspec.msgpack.encode(reply))


def encode_or_fail(reply: ChildReply) -> Frame:
    """Return the frame of a reply, or of a failure if it cannot be encoded or is too large."""
    try:
        frame = encode_reply(reply)
    except (UnicodeError, msgspec.MsgspecError, TypeError, MemoryError) as error:
        return encode_reply(_replacement(reply, failure_of(Phase.SENDING, error)))
    if len(frame.payload) > LARGEST_PAYLOAD:
        size = f"{len(frame.payload)} bytes, and at most {LARGEST_PAYLOAD} can be sent"
        return encode_reply(_replacement(reply, Failure(Phase.SENDING, "ResultTooLarge", size)))
    return frame


def _replacement(reply: ChildReply, failure: Failure) -> ChildReply:
    if isinstance(reply, Run):
        return Run(reply.probe, reply.loss, failure=failure)
    return ProgramEnd(failure)


def decode_reply(frame: Frame) -> ChildReply | None:
    """Return the reply in a frame; None if there is no valid one."""
    kind = KINDS.get(frame.kind)
    return None if kind is None else decode_record(frame.payload, kind)


def decode_record(data: bytes, kind: type[StructType]) -> StructType | None:
    """Return the record that was encoded as `data`; None if it is not a valid one."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError):
        return None


def is_possible(
    run: Run,
    probe: Probe,
    loss: Loss | None,
    measure: Iterable[Measurement] = (),
    *,
    may_be_empty: bool,
) -> bool:
    """Whether this could be a run of the probe with this loss: a child may send anything.

    The leaves must be those of the probe, and everything else must fit them, so that the run can be
    judged. Nothing may be missing unless the run failed, or `may_be_empty`. What was measured has
    the form that each measurement of `measure` declares.
    """
    if (run.probe, run.loss) != (probe.name, loss):
        return False
    recorded = (run.leaves, run.output, run.cotangent, run.gradients, run.log, run.mutated)
    failed, empty = bool(run.failure), not (any(recorded) or run.reached or run.measured)
    if empty and (failed or may_be_empty):
        return True
    leaves = {leaf.name: _type_of(leaf) for leaf in probe.leaves}
    created = run.leaves.keys() - leaves.keys()
    shapes = {array.shape for array in (run.output, run.cotangent) if array}
    complete = run.output and run.cotangent and run.gradients.keys() == run.leaves.keys()
    return (
        {n: (a.dtype, a.shape) for n, a in run.leaves.items() if n not in created} == leaves
        and all(map(CREATED.fullmatch, created))
        and all(_are_leaves(names, leaves) for names in run.leaf_log)
        and all(_are_leaves(names, leaves) for names in run.large)
        and max(len(run.leaf_log), len(run.large)) <= len(run.log) + 1
        and run.gradients.keys() <= run.leaves.keys()
        and run.mutated.keys() <= {*run.leaves, "cotangent"}
        and (run.cotangent is None or len(shapes) == 1)
        and (failed or probe.kind != "gradient" or bool(complete))
        and (failed or probe.kind != "module" or _is_module_log(run.log))
        and all(array.dtype[1] in REAL for snapshot in run.log for array in snapshot.values())
        and _has_measured(run, probe, () if failed else measure)
    )


def _has_measured(run: Run, probe: Probe, measure: Iterable[Measurement]) -> bool:
    """Whether each measurement that applies to the probe has a result of its form."""
    forms = {item.name: item.form for item in measure if probe.kind in item.kinds}
    return run.measured.keys() == forms.keys() and all(
        forms[name].fits(result, run.leaves) for name, result in run.measured.items()
    )


def _are_leaves(recorded: Mapping[str, object], named: Collection[str]) -> bool:
    """Whether the names are those of leaves, and of gradients of leaves among them."""
    names = {name.removesuffix(GRAD) for name in recorded}
    return names <= recorded.keys() and all(map(CREATED.fullmatch, names - {*named}))


def _is_module_log(log: list[dict[str, Array]]) -> bool:
    names = [next(iter(snapshot), "") for snapshot in log]
    return names == list(MODULE_LOG) and all(TRAINING_FLAGS in snapshot for snapshot in log)


def _type_of(leaf: Leaf) -> tuple[str, tuple[int, ...]]:
    """Return the dtype, as in an `Array`, and the shape of a leaf."""
    shape = np.array(leaf.values).shape if leaf.shape is None else leaf.shape
    return np.dtype(leaf.dtype).str, shape


def encode_task(task: ChildTask) -> bytes:
    """Return a task as it is sent to a host or to a fresh interpreter."""
    return msgspec.msgpack.encode(task.trimmed() if isinstance(task, Job) else task)


def decode_task(data: bytes) -> ChildTask:
    """Return the task that was encoded as `data`."""
    task: ChildTask = msgspec.msgpack.decode(data, type=ChildTask)
    return task
