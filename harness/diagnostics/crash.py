"""`crash`: did it end with an exception, a signal or a limit?"""

from __future__ import annotations

from harness.diagnostics.verdict import Alarm, Diagnostic, Observation, Silent, Verdict


def check(observation: Observation) -> Verdict:
    """Alarm at any run that did not end normally."""
    if observation.run.failure:
        return Alarm(str(observation.run.failure))
    return Silent(compared=1)


CRASH = Diagnostic(
    name="crash",
    sees="any run that does not end normally",
    blind="every wrong number",
    cost="1",
    passes=lambda _: 1,
    check=check,
    kinds=("gradient", "steps", "module"),
    looks_at_crashes=True,
)
