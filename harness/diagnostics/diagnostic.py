"""Diagnostics: what they may use, and how their verdicts are obtained.

A diagnostic evaluates an `Observation`, which holds a run and independent libraries' runs of the
same probe, but not the answer key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from harness.core.message import message, verbatim
from harness.core.run import Measured, Measurement, Run
from harness.core.verdict import Alarm, Skipped, Verdict
from harness.pages.probe import Probe, ProbeKind

if TYPE_CHECKING:
    from harness.runs.trial import Trial


@dataclass(frozen=True)
class Observation:
    """Everything that a diagnostic may use."""

    probe: Probe
    run: Run
    independent: Mapping[str, Run | Skipped]
    """The same probe and loss on independent libraries, by name, or why there is no run."""


@dataclass(frozen=True)
class Diagnostic:
    """A check that a developer without an answer key could run."""

    name: str
    sees: str
    """What it catches, in a sentence."""
    blind: str
    """What it cannot catch by construction, in a sentence."""
    cost: str
    """In forward passes of the probe; a backward pass counts as two, and P is the number of
    elements in its leaves."""
    passes: Callable[[int], float]
    """The same as a number, for a probe of P elements."""
    check: Callable[[Observation], Verdict]
    measure: Callable[[Trial, Run], Measured] | None = None
    """Runs the engine under test again, in its process; `check` finds the result in the run."""
    library: str | None = None
    """The independent library that it compares with."""
    kinds: tuple[ProbeKind, ...] = ("gradient",)
    looks_at_crashes: bool = False

    @property
    def measurement(self) -> Measurement | None:
        """What the child has to measure for it."""
        if self.measure is None:
            return None
        function = f"{self.measure.__module__}:{self.measure.__name__}"
        return Measurement(self.name, function, self.kinds)


def evaluate(diagnostic: Diagnostic, observation: Observation) -> Verdict:
    """Return the diagnostic's verdict on this run; `Skipped` if it does not apply."""
    if observation.probe.kind not in diagnostic.kinds:
        kinds = reduce(
            lambda a, b: message("{first} or {next}", first=a, next=b),
            map(verbatim, diagnostic.kinds),
        )
        return Skipped(message("it requires a probe of kind {kinds}", kinds=kinds))
    if observation.run.failure and not diagnostic.looks_at_crashes:
        return Skipped(message("the run crashed, so there is nothing to check"))
    if diagnostic.library:
        answer = observation.independent[diagnostic.library]
        if isinstance(answer, Skipped):
            return answer
        if answer.failure:
            reason = message(
                "{library} cannot run this probe: {failure}",
                library=diagnostic.library,
                failure=answer.failure.sentence,
            )
            return Skipped(reason, answer.failure.repeatable)
    measured = observation.run.measured.get(diagnostic.name)
    if measured and measured.problem:
        return Skipped(verbatim(measured.problem))
    if measured and measured.failure:
        return Alarm(
            message(
                "running the engine again for this check ended in {failure}",
                failure=measured.failure,
            )
        )
    if diagnostic.measure and not measured:
        return Skipped(message("it measured nothing on this run"))
    return diagnostic.check(observation)
