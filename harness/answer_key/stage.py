"""The stage: how far a fault got before it was lost or noticed.

After the RIPR model of mutation testing (Ammann and Offutt): a fault must be *reached*, *infect*
the state, *propagate* to something observable, and be *revealed* by a check. Where it was lost
explains why a bug hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.message import EMPTY, Message, message
from harness.core.vocabulary import Outcome, Stage


def stage_of(
    outcome: Outcome,
    trail: Mapping[str, int],
    clean: Mapping[str, int] | None,
    caught_by: Sequence[str],
) -> tuple[Stage | None, Message]:
    """Return the stage, and the sentence that explains it to a learner.

    `trail` is that of the run, `clean` that of the unpatched engine at the same sites; if the
    stage depends on `clean` and it is None, the stage is None and the sentence empty.
    """
    if caught_by:
        return "revealed", message("noticed by {diagnostics}", diagnostics=", ".join(caught_by))
    if outcome == "not-reached":
        return "not-reached", message("your probe never runs this line")
    if outcome == "disguised-correct" and clean is None:
        return None, EMPTY
    if outcome == "disguised-correct" and not infected(trail, clean or {}):
        return "not-infected", message("it ran, but on this input both formulas agree")
    if outcome == "disguised-correct":
        return "not-propagated", message("wrong inside, but cancelled on the way out")
    if outcome == "convention":
        choice = message("another valid choice at a kink: there is nothing to reveal")
        return "not-revealed", choice
    return "not-revealed", message("wrong, but no check that was run noticed it")


def infected(trail: Mapping[str, int], clean: Mapping[str, int]) -> bool:
    """Whether two runs of the same probe differ in what was evaluated at a patched site."""
    events = {key for key in trail.keys() | clean.keys() if " " in key}
    return any(
        trail.get(key, 0) != clean.get(key, 0) for key in events | (trail.keys() & clean.keys())
    )
