"""`guard`: what a correct engine refuses is refused.

Looks at probes named `refuse_*` alone, and costs nothing beside the run. A refusal is an exception
of any type, with any message; a signal, an exit or a time-out is not a refusal.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.run import Failure
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation


def check(observation: Observation) -> Verdict:
    """Alarm if the engine accepts what it has to refuse."""
    failure = observation.run.failure
    if not observation.probe.refused:
        return Skipped(message("there is nothing to refuse in this probe"))
    if failure is None:
        return Alarm(message("the engine accepts what a correct engine refuses"))
    if is_refusal(failure):
        return Silent(compared=1)
    return Alarm(message("not a refusal: {failure}", failure=failure.sentence))


def is_refusal(failure: Failure) -> bool:
    """Whether the engine raised an exception, and was not ended by a signal or a limit."""
    died = failure.type in ("TimeLimit", "ProcessExit", "MemoryError", "RecursionError")
    return not died and not failure.type.startswith("SIG")


GUARD = Diagnostic(
    name="guard",
    sees="an engine that accepts what a correct one refuses",
    blind="everything but the probes named for it; a refusal for another reason",
    cost="3, the run itself",
    passes=lambda _: 3,
    check=check,
    kinds=("gradient", "steps"),
    looks_at_crashes=True,
)
