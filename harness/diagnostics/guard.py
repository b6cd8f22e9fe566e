"""`guard`: the engine refuses what a correct engine refuses.

A refusal is an exception of any type, with any message; a signal, an exit or a timeout is not a
refusal.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.run import LIMITS, Failure
from harness.core.vocabulary import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation


def check(observation: Observation) -> Verdict:
    """Alarm if the engine accepts what it must refuse."""
    failure = observation.run.failure
    if not observation.probe.refused:
        return Skipped(message("the probe is not named `refuse_*`"))
    if failure is None:
        return Alarm(message("the engine accepts what a correct engine refuses"))
    if is_refusal(failure):
        return Silent(compared=1)
    return Alarm(message("not a refusal: {failure}", failure=failure.sentence))


def is_refusal(failure: Failure) -> bool:
    """Whether the engine raised an exception, and was not ended by a signal or a limit."""
    died = {*LIMITS, "ProcessExit", "RecursionError"}
    return failure.type not in died and not failure.type.startswith("SIG")


GUARD = Diagnostic(
    name="guard",
    sees="an engine that accepts what a correct one refuses",
    blind="probes that are not named `refuse_*`; a refusal for the wrong reason",
    check=check,
    kinds=("gradient", "steps"),
    looks_at_crashes=True,
)
