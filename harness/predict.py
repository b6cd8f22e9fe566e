"""The learner's prediction: asked before anything runs, scored after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from harness.probe import Probe
from harness.report import Report
from harness.report.terminal import outcome_text
from harness.words import OUTCOMES, Outcome

CHOICES: tuple[Outcome, ...] = (
    "crash",
    "silent-corruption",
    "disguised-correct",
    "not-reached",
)
"""What a learner may predict; the other outcomes do not depend on the probe."""


def read_prediction(answer: str) -> Outcome | None:
    """The outcome that an answer names, in full or by its first letters; None for no answer.

    Raises ValueError, with the remedy, for anything else.
    """
    word = answer.strip().lower()
    if not word:
        return None
    for outcome in CHOICES:
        if outcome.startswith(word):
            return outcome
    known = " and not to be predicted" if word in OUTCOMES else ""
    raise ValueError(
        f"`{answer.strip()}` is no outcome{known}: write {', '.join(CHOICES)}, "
        "or their first letters; Enter skips"
    )


def ask_predictions(console: Console, probes: Sequence[Probe]) -> dict[str, Outcome]:
    """Ask for one outcome a probe; end of input skips the rest."""
    console.print(Text("What do you predict?", "bold"))
    console.print("  c crash · s silent-corruption · d disguised-correct · n not-reached")
    console.print("  Enter skips a probe, Ctrl-D all that are left.\n")
    predictions = {}
    for probe in probes:
        console.print(Text.assemble((probe.name, "bold"), f"  {probe.doc.splitlines()[0]}"))
        try:
            outcome = _ask(console)
        except EOFError:
            console.print()
            break
        if outcome:
            predictions[probe.name] = outcome
    console.print()
    return predictions


def _ask(console: Console) -> Outcome | None:
    while True:
        try:
            return read_prediction(console.input("  > "))
        except ValueError as error:
            console.print(f"  {error}", markup=False)


def show_score(console: Console, predictions: Mapping[str, Outcome], report: Report) -> None:
    """Each prediction beside what was seen, and how many were right.

    A probe that ends differently under its two losses is predicted right by either.
    """
    if not predictions:
        return
    right = 0
    console.print(Text("\nYour predictions", "bold"))
    for name, predicted in predictions.items():
        seen = dict.fromkeys(run.outcome for run in report.runs if run.probe == name)
        hit = predicted in seen
        right += hit
        line = Text.assemble(("  right  " if hit else "  wrong  ", "green" if hit else "red"), name)
        line.append(f": you said {predicted}")
        if not hit or len(seen) > 1:
            line.append(", it was ")
            line.append_text(Text(" and ").join(outcome_text(outcome) for outcome in seen))
        console.print(line)
    console.print(f"  {right} of {len(predictions)} right\n")
