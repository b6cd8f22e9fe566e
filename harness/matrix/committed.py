"""The committed matrix: the rows that were last accepted, one file for each catalogue root.

A diagnostic that goes blind shows as a difference, and so does a break that is newly caught.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.core.files import write_file
from harness.core.message import message
from harness.core.vocabulary import Outcome
from harness.matrix.records import BreakRow, Difference
from harness.pages.page import read_toml

LARGEST = 16 * 1024 * 1024
"""The largest committed matrix, in bytes."""

ACCEPT = "harness matrix --accept"

_HEAD = f"""\
# The kill matrix as it was last accepted: for each break its headline, and for each diagnostic that
# catches it the probes with which it does. Written by `{ACCEPT}`; read the difference before
# you commit it.
"""


class Committed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a break's row that is committed."""

    headline: Outcome
    survived: bool
    caught_by: dict[str, list[str]] = {}
    """Probes in alphabetical order."""


def committed_file(root: Path, variant: str | None) -> Path:
    """Return the file for the matrix of a catalogue root, on the engine or on a variant of it."""
    return root / ("matrix.toml" if variant is None else f"matrix.{variant}.toml")


def commit_row(row: BreakRow) -> Committed:
    """Return the part of a row that is committed."""
    caught = {name: sorted(row.caught_by[name]) for name in sorted(row.caught_by)}
    return Committed(row.headline, row.survived, caught)


def read_committed(file: Path) -> dict[str, Committed] | None:
    """Return the committed rows by break; None if nothing is committed.

    Raises PageError for a file that `write_committed` cannot have written.
    """
    if not os.path.lexists(file):
        return None
    problem = "cannot be read as a committed matrix"
    remedy = message(
        "restore it from version control, or delete it and run `{accept}`", accept=ACCEPT
    )
    return read_toml(file, dict[str, Committed], problem, remedy, LARGEST)


def write_committed(file: Path, rows: Mapping[str, Committed]) -> None:
    """Write the rows, sorted by break; the file is replaced as a whole.

    Raises EnvironmentProblem if the file cannot be written.
    """
    text = _HEAD + "".join(_table(name, rows[name]) for name in sorted(rows))
    write_file(file, text)


def _table(name: str, row: Committed) -> str:
    """Return a row as TOML, with one line per diagnostic, so that a change of one changes one line.

    Strings, lists of strings and booleans are written the same in JSON and TOML, except for
    escaped surrogate pairs.
    """
    caught = {f"caught_by.{name}": probes for name, probes in row.caught_by.items()}
    table = {"headline": row.headline, "survived": row.survived, **caught}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
    return f"\n[{name}]\n" + "".join(f"{line}\n" for line in lines)


def compare(
    rows: Iterable[BreakRow],
    committed: Mapping[str, Committed],
    skipped: Iterable[str],
    gone: Sequence[str] = (),
) -> list[Difference]:
    """Return the differences between rows and committed rows, by break, in the order of `rows`.

    Diagnostics that could not run (`skipped`) are not compared. `gone` names committed breaks that
    have no page any more.
    """
    not_run = frozenset(skipped)
    differences: list[Difference] = []
    for row in rows:
        if row.break_ in committed:
            differences += _differences(row, committed[row.break_], not_run)
        else:
            text = "is new: it is not in the committed matrix"
            differences.append(Difference(row.break_, "+", text))
    text = "is in the committed matrix, but has no page"
    return differences + [Difference(name, "-", text) for name in gone]


def with_committed(
    row: BreakRow, committed: Mapping[str, Committed], skipped: Iterable[str]
) -> BreakRow:
    """Return the row with the diagnostics that cannot run here and are committed as catching it."""
    then = committed.get(row.break_)
    names = sorted(then.caught_by.keys() & set(skipped)) if then else []
    return msgspec.structs.replace(row, caught_elsewhere=names)


def _differences(row: BreakRow, then: Committed, not_run: frozenset[str]) -> Iterator[Difference]:
    now = commit_row(row)
    if now.headline != then.headline:
        yield Difference(row.break_, "-", f"its headline was {then.headline}")
        yield Difference(row.break_, "+", f"its headline is {now.headline}")
    undecided = bool(then.caught_by) and then.caught_by.keys() <= not_run
    if now.survived and not (then.survived or undecided):
        yield Difference(row.break_, "+", "survives: no diagnostic catches it any more")
    for name in sorted((now.caught_by.keys() | then.caught_by.keys()) - not_run):
        before, after = set(then.caught_by.get(name, ())), set(now.caught_by.get(name, ()))
        if lost := sorted(before - after):
            yield Difference(row.break_, "-", f"{name} no longer catches it with {_listed(lost)}")
        if gained := sorted(after - before):
            yield Difference(row.break_, "+", f"{name} now catches it with {_listed(gained)}")
    if then.survived and not now.survived:
        yield Difference(row.break_, "-", "no longer survives")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
