"""The learner's predictions: made before anything runs, scored after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from harness.core.report import Report
from harness.core.vocabulary import OUTCOMES, Outcome
from harness.pages.probe import Probe
from harness.report.language import ENGLISH, Language
from harness.report.terminal import Screen, outcome_text

if TYPE_CHECKING:
    from harness.training.record import TrainingReport

CHOICES: tuple[Outcome, ...] = (
    "crash",
    "silent-corruption",
    "disguised-correct",
    "not-reached",
)
"""The outcomes that a learner may predict; the others do not depend on the probe."""


def read_prediction(answer: str, say: Language = ENGLISH) -> Outcome | None:
    """Return the outcome that an answer names, in full or by its first letters; None if empty.

    The names in the language come first, and the English ones are accepted too. Raises ValueError,
    with the remedy, for anything else.
    """
    word = answer.strip().lower()
    if not word:
        return None
    for names in ({say(outcome): outcome for outcome in CHOICES}, {name: name for name in CHOICES}):
        for name, outcome in names.items():
            if name.startswith(word):
                return outcome
    typed, choices = answer.strip(), ", ".join(map(say, CHOICES))
    if word in map(say, OUTCOMES):
        problem = say(
            "`{answer}` cannot be predicted: write {choices}, or their first letters; Enter skips",
            answer=typed,
            choices=choices,
        )
    else:
        problem = say(
            "`{answer}` is not an outcome: write {choices}, or their first letters; Enter skips",
            answer=typed,
            choices=choices,
        )
    raise ValueError(problem)


def ask_outcomes(console: Screen, probes: Sequence[Probe]) -> dict[str, Outcome]:
    """Prompt for one outcome per probe; end of input skips the rest."""
    say = console.say
    choices = " · ".join(f"{say(outcome)[0]} {say(outcome)}" for outcome in CHOICES)
    console.print(Text(say("What do you predict?"), "bold"))
    console.print(f"  {choices}")
    console.print(f"  {say('Enter skips a probe; Ctrl-D skips the rest.')}\n")
    predictions = {}
    for probe in probes:
        console.print(Text.assemble((probe.name, "bold"), f"  {say(probe.doc.splitlines()[0])}"))
        try:
            outcome = _ask(console)
        except EOFError:
            console.print()
            break
        if outcome:
            predictions[probe.name] = outcome
    console.print()
    return predictions


def _ask(console: Screen) -> Outcome | None:
    while True:
        try:
            return read_prediction(console.input("  > "), console.say)
        except ValueError as error:
            console.print(f"  {error}")


def ask_moves(console: Screen, metrics: Sequence[str]) -> dict[str, str]:
    """Prompt for how each metric moves; end of input skips the rest."""
    say, moves = console.say, {"l": "lower", "h": "higher", "s": "same"}
    console.print(Text(say("What do you predict?"), "bold"))
    choices = " · ".join(f"{letter} {say(word)}" for letter, word in moves.items())
    console.print(f"  {choices}; {say('Enter skips a metric; Ctrl-D skips the rest')}")
    predictions = {}
    for metric in metrics:
        try:
            answer = console.input(Text(f"  {metric} > ")).strip().lower()[:1]
        except EOFError:
            break
        if answer in moves:
            predictions[metric] = moves[answer]
    console.print()
    return predictions


def show_score(
    console: Screen, predictions: Mapping[str, str], report: Report | TrainingReport
) -> None:
    """Show each prediction beside what was observed, and how many were right.

    A probe that ends differently under its two losses is predicted right by either.
    """
    say, count = console.say, 0
    console.print(Text(f"\n{say('Your predictions')}", "bold"))
    for name, predicted in predictions.items():
        if isinstance(report, Report):
            observed = dict.fromkeys(run.outcome for run in report.runs if run.probe == name)
            hit, line = predicted in observed, _compare(name, predicted, list(observed), say)
        else:
            hit = any(item.verdict == predicted for item in report.metrics if item.metric == name)
            line = Text(f"{name}: {say(predicted)}")
        count += hit
        mark = (f"  {say('right')}  ", "green") if hit else (f"  {say('wrong')}  ", "red")
        console.print(Text.assemble(mark, line))
    console.print(f"  {say('{count} of {total} right', count=count, total=len(predictions))}\n")


def _compare(probe: str, predicted: str, observed: Sequence[Outcome], say: Language) -> Text:
    line = Text.assemble(probe, say(": you predicted {outcome}", outcome=say(predicted)))
    if [predicted] != observed:
        line.append(say(", it was "))
        line.append_text(
            Text(say(" and ")).join(outcome_text(outcome, say) for outcome in observed)
        )
    return line
