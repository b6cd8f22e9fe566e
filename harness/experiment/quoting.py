"""Which of a page's own words the report on some runs may quote.

A page's `why` and `beware` are true of engines on which its outcomes are as stated. They are quoted
if the runs that are shown end so. On a variant for which the page has no text of its own, all of
its probes must have run. On a foreign engine nothing is quoted: the texts name numbers and checks
of the page's engine, and equal outcomes do not prove these.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.core.vocabulary import Loss, Outcome
from harness.experiment.patching import Experiment
from harness.pages.front_matter import Advice

End = tuple[str, Loss | None, Outcome]
"""A probe, its loss, and the outcome."""


def quotable(experiment: Experiment, ends: Iterable[End]) -> dict[str, object]:
    """Return the fields `why`, `beware`, `invariant` and `unexplained` of the report."""
    page, ends = experiment.page, list(ends)
    if experiment.foreign:
        return {"why": "", "beware": "", "invariant": "", "unexplained": None}
    subject, advice = page.advice_on(experiment.variant)
    stated = [
        (outcome, expected)
        for probe, loss, outcome in ends
        if (expected := page.expected(subject, probe, loss))
    ]
    unlike = sum(outcome != expected for outcome, expected in stated)
    complete = subject == experiment.variant or (
        {probe for probe, _, _ in ends} >= page.expect[None].keys()
    )
    quoted = bool(stated) and not unlike and complete
    noticeable = (quoted and subject is None) or any(
        outcome == "silent-corruption" for _, _, outcome in ends
    )
    shown = advice if quoted else Advice()
    return {
        "why": shown.why,
        "beware": shown.beware,
        "invariant": page.assertion if noticeable else "",
        "unexplained": (unlike, len(stated)) if unlike and advice.why else None,
    }
