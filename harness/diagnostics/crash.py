"""`crash`: whether the run ended with an exception, a signal or a limit.

If a correct engine refuses the probe (`refuse_*`), an exception is right: `guard` checks those. A
signal or a timeout is never right.
"""

from __future__ import annotations

from harness.core.message import message
from harness.core.vocabulary import Alarm, Silent, Skipped, Verdict
from harness.diagnostics.diagnostic import Diagnostic, Observation
from harness.diagnostics.guard import is_refusal


def check(observation: Observation) -> Verdict:
    """Alarm at any run that did not end normally."""
    failure = observation.run.failure
    if failure is None:
        return Silent(compared=1)
    if observation.probe.refused and is_refusal(failure):
        return Skipped(message("a correct engine refuses this probe: `guard` checks it"))
    return Alarm(failure.sentence)


CRASH = Diagnostic(
    name="crash",
    sees="any run that does not end normally",
    blind="wrong numbers",
    check=check,
    kinds=("gradient", "steps", "module"),
    looks_at_crashes=True,
)
