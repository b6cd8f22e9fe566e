"""What a diagnostic is: what it may see, and the three things it may say.

A diagnostic looks at an `Observation`, which holds a run and independent libraries' runs of the
same probe. The answer key is not in there: it cannot be seen from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.core.run import Measured, Measurement, Run
from harness.core.verdict import Alarm, Skipped, Verdict
from harness.pages.probe import Probe, ProbeKind
from harness.runs.trial import Trial


@dataclass(frozen=True)
class Observation:
    """All that a diagnostic may look at."""

    probe: Probe
    run: Run
    independent: Mapping[str, Run | Skipped]
    """The same probe and loss on independent libraries, by name, or why there is none."""


@dataclass(frozen=True)
class Diagnostic:
    """A check that a developer without an answer key could run."""

    name: str
    sees: str
    """What it catches, in a sentence."""
    blind: str
    """What it cannot catch by construction, in a sentence."""
    cost: str
    """In forward passes of the probe, a backward pass counted as two; P is the number of elements
    in its leaves."""
    passes: Callable[[int], float]
    """The same as a number, for a probe of P elements."""
    check: Callable[[Observation], Verdict]
    measure: Callable[[Trial, Run], Measured] | None = None
    """Runs the engine under test again, in its process; `check` finds the result in the run, and
    looks at no other diagnostic's."""
    library: str | None = None
    """The independent library that it asks."""
    kinds: tuple[ProbeKind, ...] = ("gradient",)
    looks_at_crashes: bool = False

    @property
    def measurement(self) -> Measurement | None:
        """What the child has to measure for it."""
        if self.measure is None:
            return None
        function = f"{self.measure.__module__}:{self.measure.__name__}"
        return Measurement(self.name, function, self.kinds)


def ask(diagnostic: Diagnostic, observation: Observation) -> Verdict:
    """The diagnostic's verdict, or why it cannot have one on this run."""
    if observation.probe.kind not in diagnostic.kinds:
        return Skipped(f"it needs a probe of the kind {' or '.join(diagnostic.kinds)}")
    if observation.run.failure and not diagnostic.looks_at_crashes:
        return Skipped("the run crashed, so there is nothing to look at")
    if diagnostic.library:
        answer = observation.independent[diagnostic.library]
        if isinstance(answer, Skipped):
            return answer
        if answer.failure:
            reason = f"{diagnostic.library} cannot run this probe: {answer.failure}"
            return Skipped(reason, answer.failure.repeatable)
    measured = observation.run.measured.get(diagnostic.name)
    if measured and measured.problem:
        return Skipped(measured.problem)
    if measured and measured.failure:
        return Alarm(f"running the engine again for it ended in {measured.failure}")
    if diagnostic.measure and not measured:
        return Skipped("it measured nothing on this run")
    return diagnostic.check(observation)
