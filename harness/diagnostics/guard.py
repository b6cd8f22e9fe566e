"""`guard`: what a correct engine refuses is refused.

Looks at probes named `refuse_*` alone, and costs nothing beside the run. A refusal is an exception
of any type: a message is not judged, a signal, an exit or a time-out is none.
"""

from __future__ import annotations

from harness.core.run import Failure
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation


def check(observation: Observation) -> Verdict:
    """Alarm where the engine answers what it has to refuse."""
    failure = observation.run.failure
    if not observation.probe.refused:
        return Skipped("there is nothing to refuse in this probe")
    if failure is None:
        return Alarm("the engine answers what a correct engine refuses")
    return Silent(compared=1) if is_refusal(failure) else Alarm(f"no refusal: {failure}")


def is_refusal(failure: Failure) -> bool:
    """Whether the engine said no, and did not just die: see `sandbox` for how it may."""
    died = failure.type in ("TimeLimit", "ProcessExit", "MemoryError", "RecursionError")
    return not died and not failure.type.startswith("SIG")


GUARD = Diagnostic(
    name="guard",
    sees="an engine that answers what a correct one refuses",
    blind="everything but the probes named for it; a refusal for another reason",
    cost="3, the run itself",
    passes=lambda _: 3,
    check=check,
    kinds=("gradient", "steps"),
    looks_at_crashes=True,
)
