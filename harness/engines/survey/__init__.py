"""Finding out, in the child process, how to call an engine that has no settings.

Everything is decided by behaviour, not by a project's name. The expressions for making a tensor,
reading it, running the backward pass and reading the gradient are those with which most probes of
one op come out right; if none does, names and signatures decide. An un-broadcasting function is one
that sums ones((4, 3)) to (3,); the accumulation style is how a second backward pass changes a
gradient.

The task and the results are here; `explorer`, which only a child process imports, has the survey
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.run import Failure, Name
from harness.core.vocabulary import Phase
from harness.engines.engine import Dialect
from harness.sandbox.limits import Limits

STEPS = (*(Phase.IMPORT, Phase.CLASS, Phase.TENSORS, Phase.ACCUMULATION, Phase.UNBROADCASTING),)
"""The steps of a survey, in order."""


ATTEMPT_MARKER = "harness tries:"
"""Printed before each attempt, so that the main process can name one that never ends, and alone
after it."""


GRADIENT_OUTCOMES = ("right", "scaled", "filled", "empty", "unreadable")
"""How the gradients of a probe may come out: right; wrong, but proportional to the cotangent;
merely not all zero; missing or zero; not numbers."""

MOST_FORKS = 400
"""How many forks the search for expressions may use; the other steps need a few dozen."""


class Survey(msgspec.Struct, frozen=True, tag="survey"):
    """An engine's source, and what its settings declare about it."""

    dialect: Dialect
    """The declared expressions; the survey finds those that are empty."""
    name: str | None
    """The class or function that the user named."""
    root: str
    sources: dict[str, str]
    limits: Limits = Limits(seconds=30.0, cpu_seconds=20, processes=3 * MOST_FORKS)

    @property
    def files(self) -> set[str]:
        """The paths of its source files."""
        return {str(Path(self.root) / file) for file in self.sources}


class Reducer(msgspec.Struct, frozen=True):
    """A function of the engine that sums a gradient down to the shape of an operand."""

    module: Name
    name: Name
    """The qualified name, as `Tensor.unbroadcast`."""
    file: Name
    line: int
    callers: dict[Name, list[Name]] = {}
    """The functions that called it in a backward pass, by op."""
    flaws: list[Name] = []
    """Shapes that it sums wrongly, each with the result, if the gradient of an op that calls it is
    wrong too."""
    central: Name = ""
    """The only place from which every op calls it; empty if there is none."""
    shape: Name = "(3,)"
    """The shape to which it was seen to sum ones((4, 3))."""


class ShapeChange(msgspec.Struct, frozen=True):
    """A shape that the engine does not preserve, and what it stores."""

    shape: tuple[int, ...]
    stored: tuple[int, ...] | None
    """None if it refuses such data."""


class SurveyStep(msgspec.Struct, frozen=True):
    """The result of one step; a `failure` ends the survey."""

    step: Phase
    dialect: Dialect
    name: Name | None = None
    failure: Failure | None = None
    attempts: list[Name] = []
    """If the step failed: what was tried, and how each attempt failed."""
    initial_gradient: Name = ""
    """A leaf's gradient before the first backward pass: none, zeros, number."""
    second_backward: Name = ""
    """How a second backward pass changes it: in place, rebound, replaced; refused; or gradients are
    returned."""
    shares_memory: bool = False
    """Whether a gradient is stored without a copy and shares memory with another."""
    reads_late: bool = False
    """Whether a rule reads its operands when it runs, and not in the forward pass."""
    dtype: Name = "float64"
    """The dtype in which float64 data is stored."""
    one_op: dict[Name, Name] = {}
    """How probes of one op ended with this way to call the engine, by what they compute: one of
    `GRADIENT_OUTCOMES`, or an exception."""
    misnamed: dict[Name, Name] = {}
    """Methods that no operator calls, such as `__div__`, and the name under which one would."""
    shape_changes: list[ShapeChange] = []
    """How storing data changes its shape."""
    reducers: list[Reducer] = []
    gradient_arguments: dict[Name, int] = {}
    """The position of the gradient in calls of functions that reduce it, by name; -1 in
    `g.sum_to(shape)`."""
    accumulator: Name = ""
    """The function that, for every op, sums a gradient to the shape of a tensor and adds it to the
    tensor's gradient; empty if there is no such function."""
    ops: dict[Name, list[Name]] = {}
    """The functions of the engine that run only for this op, by op."""
    keys: dict[Name, Name] = {}
    """The key of an op's rule in a table of rules, by op."""
    unsummed: dict[Name, Name] = {}
    """What happened to a gradient that was not summed to the shape of its tensor, in a `leaf` and
    `inside` the graph: crash or stored. Nothing if it could not be tried."""
    other_files: bool = False
    """Whether the survey opened files that are not in its cache key."""


class CallingDoubt(msgspec.Struct, frozen=True):
    """Why the way to call an engine may be wrong, so that a report should not blame single ops."""

    kind: Literal["nothing-right", "shared-exception", "products"]
    """`products`: an engine of numbers multiplies every output by a weight, and does so wrongly."""
    exception: Name = ""
    """An exception of a kind that more than half of the simplest probes raise."""
    probe: Name = ""
    """The probe that raises it."""


def doubt_of(one_op: Mapping[Name, Name], dialect_kind: str) -> CallingDoubt | None:
    """Return why the outcomes of the simplest probes make the way to call an engine doubtful."""
    raised = {p: o for p, o in one_op.items() if o not in GRADIENT_OUTCOMES}
    for probe, exception in raised.items():
        kind = exception.partition(":")[0]
        alike = sum(other.partition(":")[0] == kind for other in raised.values())
        if 2 * alike > len(one_op):
            return CallingDoubt("shared-exception", exception, probe)
    if one_op and "right" not in one_op.values():
        return CallingDoubt("nothing-right")
    wrong = one_op.get("t * u", "right") != "right" and one_op.get("t * 3.0") != "right"
    if dialect_kind == "scalars" and wrong and one_op.get("t + u") == "right":
        return CallingDoubt("products", probe="t * u")
    return None


class SurveyFailed(Exception):
    """Every attempt of a step failed."""
