"""The stage: how far a fault came on its way to somebody who would notice.

After the RIPR model of mutation testing (Ammann and Offutt): a fault must be *reached*, *infect*
the state, *propagate* to something observable, and be *revealed* by a check. Where it was lost is
why a bug hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.run import Run
from harness.trail import infected
from harness.words import Outcome, Stage


def stage_of(
    outcome: Outcome, run: Run, clean: Mapping[str, int], caught_by: Sequence[str]
) -> tuple[Stage, str]:
    """The stage, and what a learner should take from it.

    `clean` is the trail of the unpatched engine at the same places.
    """
    if caught_by:
        return "revealed", f"noticed by {', '.join(caught_by)}"
    if outcome == "not-reached":
        return "not-reached", "your probe never runs this line"
    if outcome == "disguised-correct" and not infected(run.trail, clean):
        return "not-infected", "it ran, but here both formulas agree"
    if outcome == "disguised-correct":
        return "not-propagated", "wrong inside, cancelled on the way out"
    if outcome == "convention":
        return "not-revealed", "another valid choice at a kink: there is nothing to reveal"
    return "not-revealed", "wrong, and every check that was asked let it through"
