"""A learner's progress on a terminal: the welcome, what is done, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.learn.hunt import hunts_in
from harness.learn.progress import (
    PRIMER,
    PRIMER_QUESTIONS,
    Calibration,
    LearnerProgress,
    NextStep,
    TestScore,
    Way,
    first_step,
    next_steps,
)
from harness.report.language import Language
from harness.report.terminal import LabelRows, Screen, columns, outcome_text

REASON = 35
"""The number of columns that a reason needs beside its command."""


def show_welcome(console: Screen, way: Way) -> None:
    """Print in six lines what this is, where the learner is, and what to type next."""
    say = console.say
    console.print(say("Put a bug into an autodiff engine; predict what it does."))
    console.print(Text(_place(way, say)))
    rows = {
        "harness start": _first_step(way, say),
        "harness list WORD": say("find a page"),
        "harness progress": say("what you have done"),
        "harness --help": say("all commands"),
    }
    console.print(LabelRows(rows))


def _place(way: Way, say: Language) -> str:
    if not way.progress.events:
        return say("You have not begun: the track has {total} pages.", total=len(way.track))
    return say(
        "Track: {done} of {total} pages done. Predictions: {right} of {count} right.",
        done=way.done,
        total=len(way.track),
        right=way.progress.right,
        count=len(way.progress.predictions),
    )


def _first_step(way: Way, say: Language) -> str:
    if not way.progress.events:
        return say("begin with page 0, the engine itself")
    return say(first_step(way).why)


def show_progress(console: Screen, way: Way) -> None:
    """Print what is done, how good the predictions were, and what comes next."""
    say, progress = console.say, way.progress
    rows = {
        say("Page 0"): _primer(progress, say),
        say("Track"): _of(way.done, len(way.track), say),
        say("Breaks"): _of(*way.count("break"), say),
        say("Myths"): _of(*way.count("myth"), say),
        say("Exercises"): _of(*way.count("exercise"), say),
    }
    if progress.repaired:
        rows[say("Repairs")] = str(len(progress.repaired))
    if test := _self_test(progress, say):
        rows[say("Self-test")] = test
    if ended := [hunt for hunt in hunts_in(progress.events) if hunt.answer]:
        solved = sum(hunt.is_solved for hunt in ended)
        rows[say("Hunts")] = say(
            "{solved} of {count} solved; best score {score}",
            solved=solved,
            count=len(ended),
            score=max(hunt.score for hunt in ended),
        )
    rows[say("Predictions")] = say(
        "{right} of {count} right; the first about each run counts",
        right=progress.right,
        count=len(progress.predictions),
    )
    console.print(LabelRows(rows))
    if entries := progress.calibration:
        console.print()
        console.print(_calibration(entries, say))
    show_next_steps(console, next_steps(way))


def _primer(progress: LearnerProgress, say: Language) -> str:
    count, total = len(progress.primer), len(PRIMER_QUESTIONS)
    if PRIMER in progress.done and count == total:
        return say("read")
    return say("{count} of {total} questions answered", count=count, total=total)


def _of(count: int, total: int, say: Language) -> str:
    return say("{count} of {total}", count=count, total=total)


def _self_test(progress: LearnerProgress, say: Language) -> str:
    before, after = progress.score("before"), progress.score("after")
    parts = []
    if before.asked:
        parts.append(say("before the track {score}", score=score_text(before, say)))
    if after.asked:
        parts.append(say("after it {score}", score=score_text(after, say)))
    return "; ".join(parts)


def score_text(score: TestScore, say: Language) -> str:
    """Return the result of a self-test: the number of right answers, or that it was skipped."""
    if not score.answered:
        return say("skipped")
    right = say("{count} of {total} right", count=score.right, total=score.answered)
    if score.answered == score.questions:
        return right
    return say("{right}, {count} not answered", right=right, count=score.questions - score.answered)


def _calibration(entries: Sequence[Calibration], say: Language) -> Table:
    """Return a table: for each predicted outcome, how many of the runs had it."""
    table = columns(2, headings=True)
    table.add_column(say("you predicted"), no_wrap=True)
    table.add_column(say("right"), justify="right", no_wrap=True)
    table.add_column(say("otherwise it was"), ratio=1)
    for entry in entries:
        others = ", ".join(f"{count} {say(word)}" for word, count in entry.instead.items())
        right = _of(entry.right, entry.count, say)
        table.add_row(outcome_text(entry.predicted, say), right, others)
    return table


def show_next_steps(console: Screen, steps: Sequence[NextStep]) -> None:
    """Print commands, each with its reason: beside it, or below it in a narrow window."""
    say = console.say
    console.print(Text(f"\n{say('Next')}", "bold"))
    rows = {step.command: say(step.why) for step in steps}
    if max(map(len, rows)) + REASON <= console.width:
        console.print(Padding(LabelRows(rows), (0, 0, 0, 2)))
        return
    for command, why in rows.items():
        console.print(Text(f"  {command}", "bold"))
        console.print(Padding(Text(why), (0, 0, 0, 6)))
