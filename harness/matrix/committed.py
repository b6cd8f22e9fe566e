"""The committed matrix: what was last accepted, one file a catalogue root, and how today differs.

A diagnostic that goes blind shows up here, and so does a break that starts to be caught.
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
    """A break's row, as far as it is held fast."""

    headline: Outcome
    survived: bool
    caught_by: dict[str, list[str]] = {}
    """Probes in alphabetical order."""


def committed_file(root: Path, variant: str | None) -> Path:
    """Where the matrix of a catalogue root is committed, for the engine or for a variant of it."""
    return root / ("matrix.toml" if variant is None else f"matrix.{variant}.toml")


def commit_row(row: BreakRow) -> Committed:
    """What is held fast of a row."""
    caught = {name: sorted(row.caught_by[name]) for name in sorted(row.caught_by)}
    return Committed(row.headline, row.survived, caught)


def read_committed(file: Path) -> dict[str, Committed] | None:
    """The committed rows by break; None where nothing is committed.

    Raises PageError for a file that is not what `write_committed` writes.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return msgspec.convert(table, dict[str, Committed])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        remedy = f"restore it from version control, or delete it and run `{ACCEPT}`"
        raise PageError(str(file), 1, f"no committed matrix: {error}", remedy) from None


def write_committed(file: Path, rows: Mapping[str, Committed]) -> None:
    """Write the rows, sorted by break, whole or not at all.

    Raises EnvironmentProblem where the file cannot be written.
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

    JSON's strings, lists of strings and booleans are TOML's too, but for its escapes by halves.
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
    """The lines in which rows and committed rows part, grouped by break, in the order of `rows`.

    Diagnostics that could not be asked (`skipped`) are compared nowhere. `gone` names committed
    breaks whose page is no more.
    """
    unasked = frozenset(skipped)
    found: list[Difference] = []
    for row in rows:
        if row.break_ in committed:
            found += _unlike(row, committed[row.break_], unasked)
        else:
            found.append(Difference(row.break_, "+", "is new: nothing is committed for it"))
    found += [Difference(name, "-", "is committed, but there is no such break") for name in gone]
    return found


def remember(row: BreakRow, committed: Mapping[str, Committed], skipped: Iterable[str]) -> BreakRow:
    """The row, with the diagnostics that could not be asked here and are known to catch it."""
    then = committed.get(row.break_)
    known = sorted(then.caught_by.keys() & set(skipped)) if then else []
    return msgspec.structs.replace(row, caught_elsewhere=known)


def _unlike(row: BreakRow, then: Committed, unasked: frozenset[str]) -> Iterator[Difference]:
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
