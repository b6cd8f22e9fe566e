"""The results of a cohort: scores as CSV, missed breaks as Markdown, a summary, and progress."""

from __future__ import annotations

import csv
import io
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

from harness.core.message import shortened, some, visible
from harness.grade.cohort.tally import SubmissionRow, Tally
from harness.grade.suite import Fate
from harness.report import markdown_table
from harness.report.terminal import ProgressBar, counted

MOST = 10
"""The number of submissions or breaks that the summary lists."""

_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula, even in quotes."""

_INTERVAL = 30.0
"""Seconds between two lines of progress where no progress bar can be shown."""


def to_csv(tally: Tally) -> bytes:
    """Return a line for each submission, sorted by name, with its scores by level and family.

    Nothing in it depends on how long something took. A name or a reason that a spreadsheet would
    execute as a formula is preceded by an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    levels = sorted({level for row in tally.rows for level in row.levels})
    families = sorted({family for row in tally.rows for family in row.families})
    own = [name for name in SubmissionRow.__struct_fields__ if name not in ("levels", "families")]
    groups = [*(f"level {level}" for level in levels), *(f"family {name}" for name in families)]
    writer.writerow([*own, *groups])
    for row in tally.rows:
        values = [getattr(row, name) for name in own]
        values += [row.levels.get(level) for level in levels]
        values += [row.families.get(family) for family in families]
        writer.writerow(map(_cell, values))
    return text.getvalue().encode()


def _cell(value: str | float | bool | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return "" if value is None else f"{value:g}"
    text = " ".join(visible(value).split())
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_table(tally: Tally) -> dict[str, object]:
    """Return the results for JSON: the rows of the CSV, and the counts for each break."""
    breaks = [
        {
            "break": count.break_,
            "family": count.family,
            "level": count.level,
            **count.fates,
            "missed_by": count.missed_by,
        }
        for count in tally.breaks
    ]
    return {"schema": 1, "submissions": tally.rows, "breaks": breaks, "failed": tally.failed}


def to_markdown(tally: Tally) -> bytes:
    """Return a table of the breaks: first those that most submissions miss."""
    fates: tuple[Fate, ...] = ("killed", "survived", "not-reached", "recognised")
    numbers = ["level", "missed", *(fate.replace("-", " ") for fate in fates)]
    rows = (
        [
            f"`{count.break_}`",
            count.family,
            str(count.level),
            f"{count.missed / count.fates.total():.0%}",
            *(str(count.fates[fate]) for fate in fates),
            some([_plain(name) for name in count.missed_by], MOST),
        ]
        for count in tally.breaks
    )
    gradable = len(tally.gradable)
    lines = [
        "# Which breaks the cohort misses",
        "",
        f"{counted(len(tally.rows), 'submission')}, {gradable} of them gradable.",
        "",
        *markdown_table(["break", "family", *numbers, "missed by"], rows, numbers),
        "",
    ]
    return "\n".join(lines).encode()


def _plain(name: str) -> str:
    """Return the name of a submission without what has a meaning in Markdown."""
    # `markdown_table` escapes `|`.
    return re.sub(r"([\\`*_{}\[\]<>#])", r"\\\1", shortened(visible(name), 60))


def summary(tally: Tally) -> Iterator[str]:
    """Yield the lines that sum up the results."""
    gradable = tally.gradable
    yield f"{counted(len(tally.rows), 'submission')} graded: {len(gradable)} gradable"
    scores = [row.score for row in gradable if row.score is not None]
    if len(scores) > 1:
        low, middle, high = statistics.quantiles(scores, method="inclusive")
        yield f"Score: median {middle:.1f} %, quartiles {low:.1f} and {high:.1f} %"
    missed = [count for count in tally.breaks if count.missed]
    if missed:
        yield "Missed most often:"
        width = max(len(count.break_) for count in missed[:MOST])
        for count in missed[:MOST]:
            yield f"  {count.break_:{width}}  {count.missed} of {count.fates.total()}"
    yield from _reasons([row for row in tally.rows if not row.gradable])
    if tally.damaged:
        yield f"Damaged lines in the results, which do not count: {tally.damaged}"


def _reasons(rows: Sequence[SubmissionRow]) -> Iterator[str]:
    if rows:
        yield f"Not gradable ({len(rows)}):"
        for row in rows[:MOST]:
            yield f"  {row.submission}: {shortened(' '.join(row.reason.split()), 200)}"
    if len(rows) > MOST:
        yield f"  and {len(rows) - MOST} more, in scores.csv"


class CohortProgress(ProgressBar):
    """A progress bar; without a terminal, an occasional line on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._first: int | None = None
        self._start = self._shown = time.monotonic()

    def watch(self, done: int, total: int, name: str = "") -> None:
        """Show that `done` of `total` submissions are graded, and that `name` was the last one."""
        super().watch(done, total, name)
        if self._first is None:
            self._first = done
        if not self.is_shown and time.monotonic() - self._shown > _INTERVAL:
            self._shown = time.monotonic()
            print(f"harness: {done} of {total} graded{self._left()}", file=sys.stderr)

    def _left(self) -> str:
        fresh = self.done - (self._first or 0)
        if not fresh or self.done == self.total:
            return ""
        seconds = (time.monotonic() - self._start) / fresh * (self.total - self.done)
        return f", about {max(1, round(seconds / 60))} min left"
