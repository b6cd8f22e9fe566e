"""`crash`: did it end with an exception, a signal or a limit?

Costs nothing beside the run. It sees no wrong number. Where a correct engine refuses (`refuse_*`),
an exception is right: `guard` looks at those. A signal or a time-out is never right.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.verdict import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.guard import is_refusal


def check(observation: Observation) -> Verdict:
    """Alarm at any run that did not end normally."""
    failure = observation.run.failure
    if failure is None:
        return Silent(compared=1)
    if observation.probe.refused and is_refusal(failure):
        return Skipped(message("a correct engine refuses this probe: `guard` looks at it"))
    return Alarm(failure.sentence)


CRASH = Diagnostic(
    name="crash",
    sees="any run that does not end normally",
    blind="every wrong number",
    cost="3, the run itself",
    passes=lambda _: 3,
    check=check,
    kinds=("gradient", "steps", "module"),
    looks_at_crashes=True,
)
