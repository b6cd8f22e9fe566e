"""A baseline: the breaks and mutants that a suite is known to miss, in a file that a person edits.

A run fails on what is not killed and not in the file, and so only on what is new. An entry for a
mutant has no line number: it names the code of the site, and stays valid when the rule moves or is
reformatted. An entry with `equivalent` sets the mutant aside: it does not count in the score.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from harness.core.errors import EnvironmentProblem, PageError, UsageError
from harness.core.files import write_file
from harness.core.message import message, some
from harness.grade.suite import BreakResult, SuiteReport
from harness.pages.page import read_toml
from harness.patch.side import quiet_parse

_HEADER = """\
# What the tests are known to miss. With --breaks-baseline and this file, a run fails only if they
# miss something else. If no test can notice an entry, say why, and it does not count in the score:
#
#     equivalent = "PyTorch itself sums a gradient with more axes than its input"
#
# --breaks-baseline-update keeps these reasons, but no other comments.
"""

_REMEDY = "correct the file, or delete it and write it again with --breaks-baseline-update"

_Number = Annotated[int, msgspec.Meta(ge=1)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A break, or a mutant of a rule, that is accepted."""

    id: str
    """That of a mutant is `operator@Rule.function`."""
    file: str = ""
    before: str = ""
    """The code of the mutant's site, and what replaces it."""
    after: str = ""
    number: _Number = 1
    """The position, by line, among mutants that are otherwise the same."""
    equivalent: str = ""
    """Why no test can notice it; empty if one could."""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What identifies it, however its code is formatted."""
        return self.id, self.file, normalized(self.before), normalized(self.after), self.number

    @property
    def place(self) -> str:
        """The rule and the function of a mutant."""
        return self.id.partition("@")[2]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    breaks: list[Entry] = msgspec.field(name="break", default=[])
    mutants: list[Entry] = msgspec.field(name="mutant", default=[])


@dataclass(frozen=True)
class Scope:
    """What a run examines: an entry for anything else is neither used nor out of date."""

    breaks: Collection[str] = ()
    """The breaks that are selected."""
    catalogue: Collection[str] = ()
    """All breaks that exist."""
    files: Collection[str] = ()
    """The files whose rules are all examined."""
    rules: Collection[str] = ()
    """The only rules that are examined, if a name was given."""

    def has(self, entry: Entry) -> bool:
        """Whether the run shows if an entry is needed."""
        if not entry.place:
            exists = entry.id in self.catalogue
            return bool(self.breaks) and (entry.id in self.breaks or not exists)
        place = f"{entry.place}."
        is_inside = not self.rules or any(place.startswith(f"{rule}.") for rule in self.rules)
        return entry.file in self.files and is_inside


@dataclass(frozen=True)
class Comparison:
    """A suite's result beside its baseline."""

    report: SuiteReport
    """The result, in which `baseline` is set for everything that is not killed."""
    new: Sequence[str]
    """What is not killed and not in the baseline, by id."""
    stale: Sequence[str]
    """The entries that are not needed, by id."""
    entries: Sequence[Entry]
    """The entries as they should be after this run."""


def read_baseline(file: Path, *, may_be_missing: bool) -> list[Entry]:
    """Return the entries of a baseline.

    Raises UsageError if there is no such file, EnvironmentProblem if it cannot be read, and
    PageError for an invalid entry.
    """
    if not file.exists():
        if may_be_missing:
            return []
        problem = message("no baseline {file}", file=file)
        raise UsageError(problem, "--breaks-baseline-update writes it")
    table = read_toml(file, _File, "it is not a baseline", _REMEDY)
    for name, entries in (("break", table.breaks), ("mutant", table.mutants)):
        for entry in entries:
            is_mutant = name == "mutant"
            if bool(entry.place) != is_mutant or bool(entry.file) != is_mutant:
                problem = message(
                    "`{id}` is not a valid entry of [[{table}]]", id=entry.id, table=name
                )
                raise PageError(str(file), _line_of(file, entry.id), problem, _REMEDY)
    return [*table.breaks, *table.mutants]


def _line_of(file: Path, name: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if name in line), 1)


def write_baseline(file: Path, entries: Iterable[Entry]) -> None:
    """Write entries in an order that does not depend on lines. Raises EnvironmentProblem."""
    ordered = sorted(entries, key=lambda one: (bool(one.place), one.file, one.key))
    write_file(file, "\n".join([_HEADER, *map(_written, ordered)]))


def _written(entry: Entry) -> str:
    rows = [f"[[{'mutant' if entry.place else 'break'}]]"]
    for name, value in msgspec.to_builtins(entry).items():
        # A string of JSON without escapes for other characters is also one of TOML.
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        rows.append(f"{name} = {text}")
    return "\n".join(rows) + "\n"


def compare(report: SuiteReport, entries: Sequence[Entry], scope: Scope) -> Comparison:
    """Compare a result with a baseline."""
    known = {entry.key: entry for entry in entries}
    results: list[BreakResult] = []
    current: dict[tuple[str, str, str, str, int], Entry] = {}
    for result, entry in zip(report.breaks, _entries_of(report.breaks), strict=True):
        if result.fate in ("killed", "does-not-apply"):
            results.append(result)
            continue
        accepted = known.get(entry.key)
        reason = accepted.equivalent if accepted else ""
        state = "equivalent" if reason else "accepted" if accepted else "new"
        results.append(replace(result, baseline=state, justification=reason))
        current[entry.key] = replace(entry, equivalent=reason)
    stale = [entry for key, entry in known.items() if key not in current and scope.has(entry)]
    others = [entry for key, entry in known.items() if key not in current and not scope.has(entry)]
    return Comparison(
        replace(report, breaks=results),
        [one.break_ for one in results if one.baseline == "new"],
        [entry.id for entry in stale],
        [*others, *current.values()],
    )


def _entries_of(results: Iterable[BreakResult]) -> Iterator[Entry]:
    """Yield the entry of each result; `results` are in the order of their lines."""
    counts: Counter[tuple[str, str, str, str, int]] = Counter()
    for result in results:
        if result.change is None:
            yield Entry(result.break_)
            continue
        name = result.break_.rpartition(":")[0]
        entry = Entry(name, result.file, result.change.before, result.change.after)
        counts[entry.key] += 1
        yield replace(entry, number=counts[entry.key])


@cache
def normalized(code: str) -> str:
    """Return code in one line without what a formatter changes: spaces, quotes, line ends."""
    for text in (code, code.replace("; ", " ")):  # an expression on several lines is no statement
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.unparse(quiet_parse(text))
    return "".join(code.split())


class Baseline:
    """The baseline of a run, and what it says of the result."""

    def __init__(self, file: Path, *, update: bool) -> None:
        """Read it. Raises what `read_baseline` raises."""
        self.file, self.update = file, update
        self.entries = read_baseline(file, may_be_missing=update)
        self.comparison: Comparison | None = None
        self.problem = ""
        """Why it could not be updated."""

    def apply(self, report: SuiteReport, scope: Scope, *, complete: bool) -> SuiteReport:
        """Return the result with what the baseline says of it; write the file if requested.

        The file is left as it is if the result is not `complete`.
        """
        if not report.gradable:
            if self.update:
                self.problem = f"{self.file} was not written, since no mutant or break was tried"
            return report
        self.comparison = compare(report, self.entries, scope)
        if not self.update:
            return self.comparison.report
        if not complete:
            self.problem = f"{self.file} was not updated, since the run is not complete"
            return self.comparison.report
        try:
            write_baseline(self.file, self.comparison.entries)
        except EnvironmentProblem as error:
            self.problem = str(error)
            return self.comparison.report
        return compare(report, self.comparison.entries, scope).report

    @property
    def problems(self) -> Iterator[str]:
        """Why the baseline makes the run fail."""
        if self.problem:
            yield self.problem
        elif self.comparison and not self.update and (new := self.comparison.new):
            noun = "1 is" if len(new) == 1 else f"{len(new)} are"
            yield f"{noun} not killed and not in {self.file} (--breaks-baseline-update adds them)"

    @property
    def notes(self) -> Iterator[str]:
        """What else the summary says about the baseline."""
        if self.comparison is None or self.problem:
            return
        new, stale = self.comparison.new, self.comparison.stale
        if self.update:
            count = len(self.comparison.entries)
            entries = "1 entry" if count == 1 else f"{count} entries"
            yield f"wrote {self.file}: {entries}, {len(new)} of them new; {len(stale)} removed"
        elif stale:
            listed = some(stale, 3)
            yield (
                f"No longer needed in {self.file} ({len(stale)}): {listed}; "
                "--breaks-baseline-update removes what is not needed"
            )


def open_baseline(file: str | None, *, update: bool) -> Baseline | None:
    """Return the baseline that the options name, if any. Raises BreaklabError."""
    if file is None:
        if update:
            remedy = "name the file: --breaks-baseline FILE"
            raise UsageError("--breaks-baseline-update needs a baseline", remedy)
        return None
    if update:
        from harness.report import require_writable

        require_writable(Path(file))
    return Baseline(Path(file), update=update)
