"""A diagnosis on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.vocabulary import Lack, shortened, some
from harness.doctor.defects import Defect
from harness.doctor.diagnosis import Applicability, Application, Diagnosis
from harness.experiment.conformance import Fit
from harness.report.doctor_facts import accumulation, storage, unbroadcasting
from harness.report.doctor_summary import heading_of, show_summary, witness_of
from harness.report.terminal import Screen, counted
from harness.report.view import places

LONGEST = 140
"""The length at which a reason is cut, in characters."""


def show_diagnosis(
    console: Screen, diagnosis: Diagnosis, argument: str | None = None, everything: bool = False
) -> None:
    """Print the summary of a diagnosis, or everything.

    `argument` is what the user called the engine; None for the nearest harness.toml.
    """
    if everything:
        _show_everything(console, diagnosis)
    else:
        show_summary(console, diagnosis, argument)


def _show_everything(console: Screen, diagnosis: Diagnosis) -> None:
    heading = (diagnosis.engine, "bold"), f", {counted(diagnosis.files, 'file')}\n"
    console.print(Text.assemble(*heading))
    console.print(Text("How breaklab calls it", "bold"))
    _show_table(console, diagnosis.interface.items())
    for title, lines in (
        ("Storage", list(storage(diagnosis))),
        ("How gradients are accumulated", list(accumulation(diagnosis))),
        ("Un-broadcasting", list(unbroadcasting(diagnosis))),
    ):
        if lines:
            console.print(Text(title, "bold"))
            for line in lines:
                _say(console, line)
            console.print()
    _show_probes(console, diagnosis.probes)
    _show_defects(console, diagnosis.defects)
    _show_breaks(console, diagnosis)
    console.print(Text("harness.toml", "bold"), "(--settings prints only this):\n")
    for line in diagnosis.settings.splitlines():
        console.print(Text(f"  {line}" if line else ""), soft_wrap=True)


def _say(console: Screen, text: str | Text, indent: int = 2) -> None:
    console.print(Padding(text if isinstance(text, Text) else Text(text), (0, 0, 0, indent)))


def _show_table(console: Screen, rows: Iterable[tuple[str, str | Text]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(style="dim", max_width=28)
    table.add_column(ratio=1)
    for name, text in rows:
        table.add_row(name, text if isinstance(text, Text) else Text(text))
    console.print(Padding(table, (0, 0, 1, 2)))


def _show_reasons(console: Screen, title: str, pairs: list[tuple[str, str]]) -> None:
    """Print names grouped by their reason, the largest group first."""
    by_reason: dict[str, list[str]] = {}
    for reason, name in pairs:
        by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return
    _say(console, title)
    for reason, names in sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        cut = shortened(reason, LONGEST)
        _say(console, Text.assemble(cut, (f": {', '.join(names)}", "dim")), 4)


def _show_probes(console: Screen, fits: list[Fit]) -> None:
    usable = sum(item.verdict == "fits" for item in fits)
    console.print(Text("Probes", "bold"))
    _say(
        console, f"{usable} of {len(fits)} shared probes give the right result: they judge breaks."
    )
    if all(item.verdict in ("lacks", "unjudged", "differs") for item in fits):
        _say(console, Text("Nothing was judged.", "bold red"))
    lacking = [item for item in fits if item.verdict == "lacks"]
    if own := sum(item.lack is Lack.LIBRARY_FEATURE for item in lacking):
        _say(console, f"{own} need layers, optimizers, data or a tape, which it does not have.")
    if operations := [item.missing for item in lacking if item.lack is Lack.OPERATION]:
        listed = _listed(set(operations))
        _say(console, f"{len(operations)} need operations that it lacks: {listed}.")
    others = [item for item in lacking if item.lack in (None, Lack.NUMPY_NAME)]
    unjudged, differing = (
        [item for item in fits if item.verdict == verdict] for verdict in ("unjudged", "differs")
    )
    for title, items in (
        ("These need something else that it lacks:", others),
        ("breaklab cannot judge these:", unjudged),
        ("These define or round something differently:", differing),
    ):
        _show_reasons(console, title, [(str(item.reason), item.probe) for item in items])
    console.print()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _show_defects(console: Screen, defects: list[Defect]) -> None:
    if not defects:
        console.print(Text("No bug was found in the unbroken engine.\n", "green"))
        return
    console.print(Text("What looks wrong in the unbroken engine", "bold"))
    for defect in defects:
        _say(console, heading_of(defect))
        _say(console, witness_of(defect), 4)
        if defect.probes:
            _say(
                console,
                f"{counted(len(defect.probes), 'other probe')}: {_listed(defect.probes)}",
                4,
            )
        for break_ in defect.alike:
            _say(console, f"{break_.break_}: {break_.title}", 4)
    console.print()


def _show_breaks(console: Screen, diagnosis: Diagnosis) -> None:
    breaks, usable = diagnosis.breaks, diagnosis.usable
    by_kind = {kind: [item for item in breaks if item.kind is kind] for kind in Applicability}
    console.print(Text("Breaks", "bold"))
    _say(console, f"{len(usable)} of {len(breaks)} can be used: harness break ID --engine ...")
    _show_table(
        console,
        [(i.break_, f"{_places(i)}; {counted(len(i.probes), 'probe')}") for i in usable],
    )
    if unjudged := by_kind[Applicability.UNJUDGED]:
        _say(console, f"{len(unjudged)} have a site, but no probe that can judge them:")
        rows = [(item.break_, f"{_places(item)}; {item.reason}") for item in unjudged]
        _show_table(console, rows)
    for kind, title in (
        (Applicability.UNTRIED, "have no probe that can run on it:"),
        (Applicability.ABSENT, "change code that it does not have:"),
    ):
        if names := [item.break_ for item in by_kind[kind]]:
            text = f"{len(names)} {title}"
            _say(console, Text.assemble(text, (f" {', '.join(names)}", "dim")))
    different = [(item.reason, item.break_) for item in by_kind[Applicability.DIFFERENT]]
    title = f"{len(different)} change code that it writes differently:"
    _show_reasons(console, title, different)
    console.print()


def _places(application: Application) -> str:
    """Return the sites by scope, with their lines."""
    listed = [
        f"{scope or 'the module'} ({file}:{lines})"
        for file, scope, lines in places(application.sites)
    ]
    return some(listed, 3, "; ")
