"""The closed vocabularies that pages, code, JSON and help texts share."""

from __future__ import annotations

from typing import Literal, get_args

PageKind = Literal["break", "variant", "myth", "exercise", "control"]
Loss = Literal["uniform", "weighted"]
Outcome = Literal[
    "silent-corruption",
    "crash",
    "disguised-correct",
    "convention",
    "not-reached",
    "does-not-apply",
]
PardonReason = Literal["equivalent", "statistical", "convention", "needs-library", "not-observable"]
"""Why a break may survive every diagnostic.

`equivalent`: no program could observe the change. `statistical`: only the distribution over many
runs differs. `convention`: both answers are right where the derivative is not unique.
`needs-library`: only a library that we do not ask would know. `not-observable`: the answer key
differs, and nothing that a developer has could tell which of the two is meant.
"""

Stage = Literal["not-reached", "not-infected", "not-propagated", "not-revealed", "revealed"]
"""How far a fault came: reach, infect, propagate, reveal (Ammann and Offutt, Introduction to
Software Testing, the RIPR model)."""

LOSSES: tuple[Loss, ...] = get_args(Loss)

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Most insidious first: a break's headline is the first of these among its runs."""


def headline(outcomes: set[Outcome]) -> Outcome:
    """The one outcome that names a whole vector of them; no run at all does not apply."""
    return next((outcome for outcome in OUTCOMES if outcome in outcomes), "does-not-apply")


def visible(text: str) -> str:
    """With escapes for what would control a terminal, or hide, instead of being read."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
