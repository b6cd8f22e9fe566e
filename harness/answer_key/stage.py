"""The stage: how far a fault came on its way to somebody who would notice.

After the RIPR model of mutation testing (Ammann and Offutt): a fault must be *reached*, *infect*
the state, *propagate* to something observable, and be *revealed* by a check. Where it was lost is
why a bug hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.vocabulary import Outcome, Stage


def stage_of(
    outcome: Outcome,
    trail: Mapping[str, int],
    clean: Mapping[str, int] | None,
    caught_by: Sequence[str],
) -> tuple[Stage | None, str]:
    """The stage, and what a learner should take from it.

    `trail` is that of the run, `clean` that of the unpatched engine at the same places. Where the
    stage depends on them and they were not asked for, it is not known.
    """
    if caught_by:
        return "revealed", f"noticed by {', '.join(caught_by)}"
    if outcome == "not-reached":
        return "not-reached", "your probe never runs this line"
    if outcome == "disguised-correct" and clean is None:
        return None, ""
    if outcome == "disguised-correct" and not infected(trail, clean or {}):
        return "not-infected", "it ran, but here both formulas agree"
    if outcome == "disguised-correct":
        return "not-propagated", "wrong inside, cancelled on the way out"
    if outcome == "convention":
        return "not-revealed", "another valid choice at a kink: there is nothing to reveal"
    return "not-revealed", "wrong, and every check that was asked let it through"


def infected(trail: Mapping[str, int], clean: Mapping[str, int]) -> bool:
    """Whether two runs of the same probe had something else at a patched place."""
    events = {key for key in trail.keys() | clean.keys() if " " in key}
    return any(
        trail.get(key, 0) != clean.get(key, 0) for key in events | (trail.keys() & clean.keys())
    )
