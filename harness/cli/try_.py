"""`harness try`: Python on the unbroken and on the broken engine, side by side."""

from __future__ import annotations

import codeop
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.cli.options import Breaks, Lang, PageId
from harness.cli.session import CommandSession, print_json
from harness.core.errors import UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.experiment.patching import Experiment
    from harness.pages.page import Page
    from harness.pages.probe import Probe


def try_code(
    page: PageId,
    code: Annotated[
        str | None,
        typer.Option("-c", metavar="CODE", help="Run this code instead of opening a prompt."),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe",
            metavar="NAME",
            help="The probe whose leaves are loaded; by default the first.",
        ),
    ] = None,
    lang: Lang = None,
    breaks: Breaks = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs; needs -c.")
    ] = False,
) -> int:
    """Type Python, and see what it gives on the engine with and without a break."""
    session = CommandSession(breaks, lang=lang, json=json)
    from harness.pages.front_matter import TrainingBreak

    broken = session.page(page, "break")
    if json and code is None:
        raise UsageError("--json needs -c", message("harness try {page} -c CODE", page=page))
    if isinstance(broken.front, TrainingBreak):
        raise _no_probe(broken, ())
    with session.busy():
        from harness.experiment.patching import prepare

        experiment = prepare(broken, session.catalogue, session.engine)
    chosen = _chosen(broken, experiment, probe)
    if code is not None:
        answers = _answers(session, experiment, chosen, [_call(chosen), code])
        if _is_expression(code):  # Python's prompt shows nothing
            answers = [answer or "None" for answer in answers]
        if json:
            print_json({"schema": 1, "unbroken": answers[0], "broken": answers[1]})
        else:
            _show(session, answers)
        return 0
    _introduce(session, experiment, chosen)
    _read(session, experiment, chosen)
    return 0


def _chosen(page: Page, experiment: Experiment, name: str | None) -> Probe:
    """Return the probe with this name, or the page's first one that computes gradients.

    Raises UsageError for another name, and if the page has no such probe.
    """
    probes = {probe.name: probe for probe in experiment.probes if probe.kind == "gradient"}
    if name in probes:
        return probes[name]
    if name is None and probes:
        return next(iter(probes.values()))
    raise _no_probe(page, probes)


def _no_probe(page: Page, names: Iterable[str]) -> UsageError:
    """Return the error for a page without the probe that is asked for, or without any."""
    remedy = message("harness break {page}", page=page.id)
    if names := ", ".join(names):
        remedy = message("its probes are {names}", names=names)
    return UsageError(message("`{page}` has no such probe with leaves", page=page.id), remedy)


def _introduce(session: CommandSession, experiment: Experiment, probe: Probe) -> None:
    from harness.report.one_screen import show_surroundings
    from harness.runs.trial import draw

    console, say = session.console, session.console.say
    show_surroundings(console, experiment)
    console.print(Text(probe.code))
    console.print()
    for name, values in draw(probe).items():
        text = " ".join(repr(values.tolist()).split())
        console.print(Text(f"{name} = lib.tensor({text}, requires_grad=True)"), soft_wrap=True)
    console.print(Text(_call(probe)))
    line = say(
        "Each line runs on both engines; after `y.sum().backward()`, a leaf has its gradient. "
        "Ctrl-D ends."
    )
    console.print(f"\n{line}")


def _call(probe: Probe) -> str:
    """Return the first entry: the probe, called with its leaves."""
    arguments = ["lib"] * probe.takes_lib + [leaf.name for leaf in probe.leaves]
    return f"y = {probe.function}({', '.join(arguments)})"


def _read(session: CommandSession, experiment: Experiment, probe: Probe) -> None:
    """Read entries until the input ends, and show what each gives."""
    console = session.console
    entries = [_call(probe)]
    while True:
        try:
            entry = console.input(">>> ")
            while _is_open(entry):
                entry += "\n" + console.input("... ")
        except EOFError:
            console.print()
            return
        if entry.strip():
            entries.append(entry)
            _show(session, _answers(session, experiment, probe, entries))


def _is_expression(code: str) -> bool:
    try:
        compile(code, "-c", "eval")
    except (SyntaxError, ValueError, OverflowError):
        return False
    return True


def _is_open(entry: str) -> bool:
    """Whether more lines have to follow."""
    try:
        return codeop.compile_command(entry) is None
    except (SyntaxError, ValueError, OverflowError):
        return False


def _answers(
    session: CommandSession, experiment: Experiment, probe: Probe, entries: Sequence[str]
) -> list[str]:
    """Return what the last entry gives on the unbroken and on the broken engine."""
    from harness.runs.replay import replayed

    answers = []
    with session.busy():
        for engine in (experiment.clean, experiment.broken):
            printout = replayed(engine, probe, entries)
            failure = f"{printout.failure}\n" if printout.failure else ""
            answers.append(f"{printout.text}{failure}".rstrip("\n"))
    return answers


def _show(session: CommandSession, answers: Sequence[str]) -> None:
    """Print both answers, or one if they are equal; nothing if there is none."""
    console, say = session.console, session.console.say
    labels = say("unbroken"), say("broken"), say("both")
    width = max(map(len, labels)) + 2
    if answers[0] == answers[1]:
        shown = [(labels[2], answers[0], "")] if answers[0] else []
    else:
        shown = [(labels[0], answers[0], ""), (labels[1], answers[1], "magenta")]
    for label, text, style in shown:
        first, *rest = text.split("\n")
        console.print(Text.assemble(f"{label:<{width}}", (first, style)), soft_wrap=True)
        for line in rest:
            console.print(Text.assemble(" " * width, (line, style)), soft_wrap=True)
