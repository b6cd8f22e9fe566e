"""What the doctor found out about an engine: in words, as JSON, and on a terminal.

A diagnosis consists of kinds and numbers (`harness.doctor.diagnosis`). This module puts them into
words, for the notes and for each defect; the terminal, JSON and a template for HTML show these.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.core.message import EMPTY, Message, as_text, either, message, shortened, some, verbatim
from harness.core.vocabulary import Lack
from harness.doctor.defects import Defect
from harness.doctor.diagnosis import Applicability, Application, Diagnosis
from harness.doctor.roots import Feature, Use
from harness.engines import SETTINGS
from harness.engines.survey import CallingDoubt, Reducer
from harness.experiment.conformance import SECOND_BACKWARD
from harness.report.terminal import Screen, counted
from harness.report.view import places


def in_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the table for JSON. Schema 1: keys may be added, never renamed."""
    table: dict[str, Any] = msgspec.to_builtins(diagnosis, enc_hook=as_text)
    defects = [
        {"root": root_of(defect), **record}
        for defect, record in zip(diagnosis.defects, table["defects"], strict=True)
    ]
    return table | {"defects": defects} | how_it_works(diagnosis)


HEADINGS: Mapping[str, Message] = {
    "storage": message("Storage"),
    "accumulation": message("How gradients are accumulated"),
    "unbroadcasting": message("Un-broadcasting"),
}
"""The headings of the notes."""


def how_it_works(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Return how the engine works, line by line, under the keys of `HEADINGS`."""
    return {
        "storage": list(storage(diagnosis)),
        "accumulation": list(accumulation(diagnosis)),
        "unbroadcasting": list(unbroadcasting(diagnosis)),
    }


# ----- What looks wrong -----

_USES: Mapping[str, str] = {
    Use.CREATED: "broadcasting to a new axis",
    Use.STRETCHED: "broadcasting of a stretched axis",
    Use.BROADCASTING: "broadcasting",
    Use.LEAF_TWICE: "a leaf that is used twice",
    Use.RESULT_TWICE: "a result that is used twice",
    Use.TWICE: "a tensor that is used twice",
    Use.CHAIN: "a backward pass through several ops",
    Use.SECOND: "a result as the second operand",
    Use.SECOND_BACKWARD: "a second backward pass through the same results",
}

_USES_OF_AN_OP: Mapping[str, str] = {
    Use.CREATED: " with a new axis",
    Use.STRETCHED: " with a stretched axis",
    Use.SAME: " of a tensor and itself",
}


def root_of(defect: Defect) -> str:
    """Return what the probes that show a defect have in common, in a few words."""
    if defect.feature is None:
        return f"`{defect.probe}`"
    return words_of(defect.feature) + (" on some inputs" if defect.is_partial else "")


def place_of(defect: Defect) -> str:
    """Return where a defect is, in parentheses; empty if it is not known."""
    return f" ({defect.site.file}:{defect.site.line})" if defect.site else ""


def likeness_of(defect: Defect) -> Message:
    """Return which breaks behave like a defect, or are one; empty if there are none."""
    if not defect.alike:
        return EMPTY
    breaks = either(verbatim(f"`{item.break_}`") for item in defect.alike)
    if defect.alike[0].is_undone:
        return message("is right once {breaks} is undone", breaks=breaks)
    if op := defect.alike[0].only_in:
        return message("behaves like {breaks} in `{op}`", breaks=breaks, op=op)
    return message("behaves like {breaks}", breaks=breaks)


def words_of(feature: Feature) -> str:
    """Return a feature in a few words."""
    if feature.op:
        return f"`{feature.op}`" + _USES_OF_AN_OP.get(feature.detail, "")
    return _USES[feature.detail]


# ----- Storage -----

_STORED = {
    "scalars": "a tensor is a single number: probes use NumPy arrays of them, with NumPy's shapes",
    "functional": (
        "it differentiates functions: a probe is the function, traced for each of its leaves"
    ),
}
"""How values are stored, by the kind of engine."""


def storage(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how storing a value changes its shape and dtype."""
    found = diagnosis.storage
    if diagnosis.kind in _STORED:
        yield _STORED[diagnosis.kind]
    if found.shape_changes:
        changes = "; ".join(
            f"{change.shape} is "
            + ("refused" if change.stored is None else f"stored as {change.stored}")
            for change in found.shape_changes
        )
        yield f"shapes are changed: {changes}; only probes of the other ranks can be judged"
    if found.dtype != "float64":
        yield f"float64 is stored as {found.dtype}, and compared in that precision"
    if found.reads_late:
        yield (
            "a rule reads the value of its operand when it runs: a step between the forward and "
            "the backward pass changes the gradient"
        )
    if found.draws:
        is_all_right = all(item.verdict in ("fits", "lacks") for item in diagnosis.probes)
        which = "gradient" if is_all_right else "right gradient"
        yield f"it draws from NumPy's global generator, but no {which} depends on what it draws"


# ----- Accumulation -----

_BEFORE = {
    "none": "a leaf has no gradient before the first backward pass, which stores the first one",
    "zeros": "every leaf starts with a buffer of zeros",
    "number": "a gradient starts as a Python number",
}
_SECOND = {
    "returned": "gradients are returned, not stored, so nothing is accumulated",
    "in place": "a second backward pass adds into the same array",
    "rebound": "a second backward pass makes a new array",
    "compounded": "a second backward pass through the same results gives wrong gradients",
    "replaced": "a second backward pass replaces the gradient instead of adding to it",
    "refused": "a second backward pass is refused",
}


_UNSUMMED = {
    ("crash", "crash"): "a gradient of the wrong shape crashes where it is added",
    ("crash", "stored"): "a gradient of the wrong shape crashes where it is added to a leaf",
    ("crash", ""): "a gradient of the wrong shape crashes where it is added to a leaf",
    ("stored", "crash"): (
        "a gradient of the wrong shape is stored silently in a leaf, and crashes inside the graph"
    ),
    ("stored", "stored"): "a gradient of the wrong shape is stored silently",
    ("stored", ""): "a gradient of the wrong shape is stored silently in a leaf",
    ("", "crash"): "a gradient of the wrong shape crashes inside the graph",
    ("", "stored"): "a gradient of the wrong shape is passed on silently inside the graph",
}
"""What happened to gradients that were not summed, in a leaf and inside the graph."""


def accumulation(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how gradients are accumulated."""
    found = diagnosis.accumulation
    if found.second_backward == "returned":
        yield _SECOND["returned"]
        return
    for table, key in ((_BEFORE, found.initial_gradient), (_SECOND, found.second_backward)):
        if key in table:
            yield table[key]
    if found.shares_memory:
        yield "a gradient is stored without a copy, and shares memory with another one"
    if text := _UNSUMMED.get((found.unsummed_in_leaf, found.unsummed_inside)):
        yield text


# ----- Un-broadcasting -----

_UNBROADCASTING = {
    "scalars": "none: a number has no shape",
    "named": ("judging by the name, {names}; no function was observed to sum ones((4, 3)) to (3,)"),
    "inside": "it un-broadcasts inside its ops, not in a separate function",
    "missing": "it does not un-broadcast: {reason}",
    "refused": "it does not broadcast: {reason}",
    "unknown": "none was found",
}


def unbroadcasting(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how gradients are summed to the shapes of operands."""
    found = diagnosis.unbroadcasting
    if found.kind == "functions":
        for reducer in diagnosis.reducers:
            yield from _reducer(reducer) if reducer.callers else ()
    else:
        names = ", ".join(f"`{name}`" for name in found.names)
        yield _UNBROADCASTING[found.kind].format(names=names, reason=found.reason)


def _reducer(reducer: Reducer) -> Iterator[str]:
    yield f"`{reducer.name}` ({reducer.file}) sums ones((4, 3)) to {reducer.shape}"
    if reducer.central:
        yield f"it is central: every op's gradient passes through `{reducer.central}`"
    else:
        yield "each op calls it: " + "; ".join(
            f"{op} in {', '.join(f'`{caller}`' for caller in callers)}"
            for op, callers in reducer.callers.items()
        )
    for flaw in reducer.flaws:
        yield f"`{reducer.name}` is wrong: {flaw}"


# ----- The summary: what matters, and what to type next -----

MOST_LINES = 15
"""The maximum number of lines, if the console has 80 columns."""


def _show_summary(console: Screen, diagnosis: Diagnosis, argument: str | None) -> None:
    head, tail = list(_head(diagnosis)), list(_tail(diagnosis, argument))
    room = MOST_LINES - sum(_height(console, row) for row in (*head, *tail))
    defects = _fitting(console, diagnosis.defects, room)
    for row in (*head, *defects, *tail):
        console.print(row, soft_wrap=isinstance(row, Text))


def _heading(defect: Defect) -> Text:
    """Return what looks wrong, where, and which break behaves the same way."""
    line = f"{place_of(defect)} {likeness_of(defect)}".rstrip()
    return Text.assemble((root_of(defect), "bold"), line)


def _witness(defect: Defect) -> Text:
    """Return the most basic probe that shows a defect, with its numbers or its failure."""
    others = f" (and {len(defect.probes)} more)" if defect.probes else ""
    kind = "" if defect.kind == SECOND_BACKWARD else f"{defect.kind}: "  # the heading says it
    return Text.assemble(
        (f"{defect.probe}{others}: ", "dim"),
        (kind, "magenta"),
        str(defect.evidence),
    )


def _head(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield Text.assemble((diagnosis.engine, "bold"), f", {counted(diagnosis.files, 'file')}")
    interface = diagnosis.interface
    calls = [interface[name] for name in ("leaf", "grad", "backward", "pull") if name in interface]
    doubt = diagnosis.doubt
    nothing = doubt and "right" not in diagnosis.one_op.values()
    yield _row("Calls", "; ".join([*calls, *(["nothing came out right"] if nothing else [])]))
    if notes := list(islice(accumulation(diagnosis), 2)):
        yield _row("Gradients", "; ".join(notes))
    if diagnosis.misnamed:
        names = [f"`{name}`: name it `{special}`" for name, special in diagnosis.misnamed.items()]
        yield _row("Never runs", some(names, 3))
    if doubt:
        yield _row("Looks wrong", Text(_doubted(doubt), "bold red"))
        if diagnosis.alike:
            yield _row("Alike", some([f"`{name}`" for name in diagnosis.alike], 4))
    elif diagnosis.defects:
        order = ", the most basic first" if len(diagnosis.defects) > 1 else ""
        count = Text(counted(len(diagnosis.defects), "finding"), "bold red")
        yield _row("Looks wrong", count + order)
    elif diagnosis.judged:
        yield _row("Looks wrong", Text("nothing", "green"))
    else:
        yield Text("Nothing was judged.", "bold red")


def _doubted(doubt: CallingDoubt) -> str:
    """Return what is wrong everywhere, without blaming an op."""
    if doubt.kind == "nothing-right":
        return "the gradient of every op, so that no single op is blamed"
    if doubt.kind == "products":
        return (
            f"the gradient of `{doubt.probe}`; breaklab multiplies every output by a weight with "
            "this op, so that no other op is blamed"
        )
    return (
        f"even the backward pass of `{doubt.probe}` raises {doubt.exception}; the engine has a bug "
        f"there, or breaklab calls it wrongly: then write leaf, data, backward and grad in "
        f"{SETTINGS}"
    )


def _tail(diagnosis: Diagnosis, argument: str | None) -> Iterator[RenderableType]:
    right = sum(item.verdict == "fits" for item in diagnosis.probes)
    breaks, probes = len(diagnosis.breaks), len(diagnosis.probes)
    yield _row(
        "Breaks",
        f"{len(diagnosis.usable)} of {breaks} can be tried; {right} of {probes} probes judge them"
        if right
        else f"none can be tried: none of {probes} probes gives the right result",
    )
    name = "" if argument is None else f" {shlex.quote(argument)}"
    option = name and f" --engine{name}"
    alike = [item.break_ for defect in diagnosis.defects for item in defect.alike]
    if first := next(iter([*diagnosis.alike, *alike]), None):
        yield _command("Next", f"harness show {first}")
    elif diagnosis.usable:
        yield _command("Next", f"harness break {diagnosis.usable[0].break_}{option}")
    yield _command("More", f"harness doctor{name} --all")


_COLUMN = 12
"""The width of the labels."""


def _row(label: str, text: str | Text) -> RenderableType:
    table = Table.grid()
    table.add_column(style="bold", width=_COLUMN)
    table.add_column(overflow="fold")
    table.add_row(label, text if isinstance(text, Text) else Text(text))
    return table


def _command(label: str, command: str) -> Text:
    """Return a row that is printed on one line, whatever its length, so that it can be copied."""
    return Text.assemble((label.ljust(_COLUMN), "bold"), command)


def _height(console: Screen, row: RenderableType) -> int:
    return len(console.render_lines(row, console.options, pad=False))


def _fitting(console: Screen, defects: Sequence[Defect], room: int) -> Iterator[RenderableType]:
    """Yield as many defects as there is room for, at least one, and the number of the others."""
    for position, defect in enumerate(defects):
        witness = _witness(defect)
        witness.truncate(console.width - 4, overflow="ellipsis")
        rows = [
            Padding(_heading(defect), (0, 0, 0, 2)),
            Padding(witness, (0, 0, 0, 4)),
        ]
        room -= sum(_height(console, row) for row in rows)
        is_last = position + 1 == len(defects)
        if position and room < (not is_last):
            yield Padding(Text(_others(defects, position, console.width - 4)), (0, 0, 0, 2))
            return
        yield from rows


def _others(defects: Sequence[Defect], shown: int, width: int) -> str:
    """Return the number of the defects that are not shown, and what else they behave like.

    As many breaks are named as fit into one line.
    """
    breaks = [[item.break_ for item in defect.alike] for defect in defects]
    names = {name: None for alike in breaks[shown:] for name in alike}
    for name in (name for alike in breaks[:shown] for name in alike):
        names.pop(name, None)
    count = len(defects) - shown
    texts = [f"and {count} more: see --all"]
    for most in range(1, len(names) + 1):
        listed = ", ".join(f"`{name}`" for name in list(names)[:most])
        texts.append(f"and {count} more, like {listed}: see --all")
    return max((text for text in texts if len(text) <= width), key=len, default=texts[0])


# ----- Everything -----

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
        _show_summary(console, diagnosis, argument)


def _show_everything(console: Screen, diagnosis: Diagnosis) -> None:
    heading = (diagnosis.engine, "bold"), f", {counted(diagnosis.files, 'file')}\n"
    console.print(Text.assemble(*heading))
    console.print(Text("How breaklab calls it", "bold"))
    _show_table(console, diagnosis.interface.items())
    for key, lines in how_it_works(diagnosis).items():
        if lines:
            console.print(Text(str(HEADINGS[key]), "bold"))
            for line in lines:
                _say(console, line)
            console.print()
    _show_probes(console, diagnosis)
    if diagnosis.defects:
        _show_defects(console, diagnosis.defects)
    elif diagnosis.doubt:
        console.print(Text(f"Looks wrong: {_doubted(diagnosis.doubt)}\n", "bold red"))
    elif diagnosis.judged:
        console.print(Text("No bug was found in the unbroken engine.\n", "green"))
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


def _show_probes(console: Screen, diagnosis: Diagnosis) -> None:
    fits = diagnosis.probes
    usable = sum(item.verdict == "fits" for item in fits)
    console.print(Text("Probes", "bold"))
    _say(
        console, f"{usable} of {len(fits)} shared probes give the right result: they judge breaks."
    )
    if not diagnosis.judged:
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
    console.print(Text("What looks wrong in the unbroken engine", "bold"))
    for defect in defects:
        _say(console, _heading(defect))
        _say(console, _witness(defect), 4)
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
        have, them = ("has", "it") if len(unjudged) == 1 else ("have", "them")
        _say(console, f"{len(unjudged)} {have} a site, but no probe that can judge {them}:")
        rows = [(item.break_, f"{_places(item)}; {item.reason}") for item in unjudged]
        _show_table(console, rows)
    for kind, title in (
        (Applicability.UNTRIED, "have no probe that can run on it:"),
        (Applicability.ABSENT, "change code that it does not have:"),
        (Applicability.PRESENT, "are bugs that it already has:"),
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
