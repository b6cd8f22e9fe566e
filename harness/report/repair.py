"""A scratch copy on a terminal: what is wrong in it, which file to open, and what to type next."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from harness.learn.repair import CopyDifference, Repair, RepairTask
from harness.report.language import Language
from harness.report.terminal import Screen, outcome_text, show_diff

INDENT = 8
"""The number of columns of the labels."""

MOST_OTHERS = 6
"""The most further probes to name."""


def show_new_copy(console: Screen, folder: Path, damage: RepairTask, check: str) -> None:
    """Print where the copy is, one symptom, which file to open, and what to type next."""
    say, engine = console.say, damage.experiment.clean.name
    line = say("{folder} is a copy of {engine} with this bug.", folder=folder, engine=engine)
    console.print(f"{line}\n", soft_wrap=True)
    _show_difference(console, say("Wrong"), damage.symptom)
    _show_work(console, folder, damage.in_folder(folder).files, check)


def show_repair(console: Screen, repair: Repair, check: str) -> None:
    """Print the verdict on a copy, and what to do next or what was learned."""
    say = console.say
    if repair.state == "right":
        _show_right(console, repair)
        return
    if repair.state == "unrepaired":
        console.print(Text(say("Nothing is repaired yet: the copy still has the bug."), "bold red"))
    else:
        _show_wrong(console, repair)
    _show_work(console, Path(repair.folder), repair.files, check)


def _show_wrong(console: Screen, repair: Repair) -> None:
    say, first = console.say, repair.differences[0]
    probes = list(dict.fromkeys(difference.probe for difference in repair.differences))
    if first.diagnostic:
        line = say("Not right yet: all numbers agree, but a diagnostic raises an alarm.")
    else:
        line = say(
            "Not right yet: {count} of {total} probes differ from the original.",
            count=len(probes),
            total=repair.judged,
        )
    console.print(Text(f"{line}\n", "bold red"))
    _show_difference(console, say("First"), first)
    if others := probes[1:]:
        shown = ", ".join(others[:MOST_OTHERS])
        if len(others) > MOST_OTHERS:
            shown = say("{first}, ... ({count} in all)", first=shown, count=len(others))
        _show_row(console, say("Others"), Text(shown))


def _show_difference(console: Screen, label: str, difference: CopyDifference) -> None:
    """Print what a probe computes, and what came out."""
    say = console.say
    _show_row(console, label, Text(_run_of(difference, say)))
    if difference.diagnostic:
        result = Text(f"{difference.diagnostic}: {say(difference.evidence)}")
    else:
        result = outcome_text(difference.outcome, say)
        result.append(f": {say(difference.evidence)}", "not bold")
    _show_row(console, "", result)
    if difference.first_seen:
        _show_row(console, "", Text(say("first seen: {where}", where=difference.first_seen)))


def _run_of(difference: CopyDifference, say: Language) -> str:
    """Return a probe with what it computes, its shapes if they were drawn, and its loss."""
    parts = [f"{difference.probe}: {say(difference.computes)}"]
    if difference.drawn:
        shapes = ", ".join(f"{name} {shape}" for name, shape in difference.drawn.items())
        parts = [say("{probe}, with {shapes}", probe=parts[0], shapes=shapes)]
    if difference.loss:
        parts.append(say("{loss} loss", loss=say(difference.loss)))
    return ", ".join(parts)


def _show_work(console: Screen, folder: Path, files: list[str], check: str) -> None:
    """Print which files to open, and what to type next; both can be copied."""
    say = console.say
    console.print()
    for label, text in (
        *((say("Open") if file == files[0] else "", str(folder / file)) for file in files),
        (say("Then"), check),
    ):
        line = Text.assemble((f"{label:{INDENT}}", "bold"), text)
        console.print(line, soft_wrap=True)


def _show_right(console: Screen, repair: Repair) -> None:
    say = console.say
    line = say(
        "Repaired: correct on all {count} probes that run the code, without new alarms.",
        count=repair.judged,
    )
    console.print(Text(line, "bold green"))
    if repair.diff:
        console.print(f"\n{say('Changes from the original to your copy:')}\n")
        show_diff(console, repair.diff, ())
    else:
        console.print(say("Your files are identical to the original ones."))
    if repair.why:
        console.print()
        _show_row(console, say("Why"), Text(say(repair.why)))


def _show_row(console: Screen, label: str, text: Text) -> None:
    """Print a text beside its label, wrapped beside it."""
    lines = text.wrap(console, max(console.width - INDENT, 1))
    for number, line in enumerate(lines):
        line.rstrip()
        head = label if number == 0 else ""
        console.print(Text.assemble((f"{head:{INDENT}}", "bold"), line))
