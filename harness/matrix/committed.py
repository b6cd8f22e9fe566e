"""The committed matrix: the rows that were last accepted, one file for each catalogue root.

A diagnostic that goes blind shows as a difference, and so does a break that is caught from now on.
"""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.core.errors import EnvironmentProblem, PageError
from harness.core.vocabulary import Outcome
from harness.matrix.records import BreakRow, Difference

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
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return msgspec.convert(table, dict[str, Committed])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        remedy = f"restore it from version control, or delete it and run `{ACCEPT}`"
        raise PageError(
            str(file), 1, f"cannot be read as a committed matrix: {error}", remedy
        ) from None


def write_committed(file: Path, rows: Mapping[str, Committed]) -> None:
    """Write the rows, sorted by break; the file is replaced as a whole.

    Raises EnvironmentProblem if the file cannot be written.
    """
    text = _HEAD + "".join(_table(name, rows[name]) for name in sorted(rows))
    try:
        descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            Path(draft).chmod(0o644)  # mkstemp's own is for the user alone
            Path(draft).replace(file)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            f"the matrix cannot be committed to {file}: {error}",
            "accept it in a clone of the project, where the folder can be written",
        ) from None


def _table(name: str, row: Committed) -> str:
    """A row as TOML, a line for each diagnostic so that a change of one is a change of a line.

    Strings, lists of strings and booleans are written the same in JSON and TOML, except for
    escaped surrogate pairs.
    """
    caught = {f"caught_by.{who}": probes for who, probes in row.caught_by.items()}
    said = {"headline": row.headline, "survived": row.survived, **caught}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in said.items()]
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
    unasked = frozenset(skipped)
    found: list[Difference] = []
    for row in rows:
        if row.break_ in committed:
            found += _differences(row, committed[row.break_], unasked)
        else:
            found.append(Difference(row.break_, "+", "is new: it is not in the committed matrix"))
    found += [Difference(name, "-", "is in the committed matrix, but has no page") for name in gone]
    return found


def with_committed(
    row: BreakRow, committed: Mapping[str, Committed], skipped: Iterable[str]
) -> BreakRow:
    """Return the row with the diagnostics that cannot run here and are committed as catching it."""
    then = committed.get(row.break_)
    known = sorted(then.caught_by.keys() & set(skipped)) if then else []
    return msgspec.structs.replace(row, caught_elsewhere=known)


def _differences(row: BreakRow, then: Committed, unasked: frozenset[str]) -> Iterator[Difference]:
    now = commit_row(row)
    if now.headline != then.headline:
        yield Difference(row.break_, "-", f"its headline was {then.headline}")
        yield Difference(row.break_, "+", f"its headline is {now.headline}")
    undecided = bool(then.caught_by) and then.caught_by.keys() <= unasked
    if now.survived and not (then.survived or undecided):
        yield Difference(row.break_, "+", "survives: no diagnostic catches it any more")
    for name in sorted((now.caught_by.keys() | then.caught_by.keys()) - unasked):
        before, after = set(then.caught_by.get(name, ())), set(now.caught_by.get(name, ()))
        if lost := sorted(before - after):
            yield Difference(row.break_, "-", f"{name} no longer catches it with {_some(lost)}")
        if won := sorted(after - before):
            yield Difference(row.break_, "+", f"{name} now catches it with {_some(won)}")
    if then.survived and not now.survived:
        yield Difference(row.break_, "-", "no longer survives")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names)
