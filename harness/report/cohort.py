"""The results of a cohort: scores as CSV, a class page as Markdown, a summary, and progress."""

from __future__ import annotations

import csv
import io
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.message import Message, message, shortened, some, visible
from harness.grade.cohort.tally import BreakCount, ClassDay, PastScore, SubmissionRow, Tally
from harness.grade.styles import Style
from harness.grade.suite import Fate
from harness.report import markdown_table
from harness.report.terminal import ProgressBar, counted

MOST = 10
"""The number of submissions or breaks that the summary lists."""

_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula, even in quotes."""

_GROUPS = ("levels", "families", "styles")
"""The columns that are not single values."""

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
    own = [name for name in SubmissionRow.__struct_fields__ if name not in _GROUPS]
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
    return {
        "schema": 1,
        "submissions": tally.rows,
        "breaks": breaks,
        "failed": tally.failed,
        "history": {
            name: [{"day": past.day, "score": past.score} for past in scores]
            for name, scores in tally.history.items()
        },
    }


# ----- The class page, as Markdown and as HTML -----

STYLE_NAMES: Mapping[Style, Message] = {
    "properties": message("properties (Hypothesis)"),
    "another library": message("comparison with another library"),
    "differences": message("finite differences"),
    "parameters": message("parametrized tests"),
    "plain": message("plain tests"),
}
"""The headings of the styles. A suite may have several, but not `plain` with others."""


@dataclass(frozen=True)
class ClassPage:
    """What a page about a class shows."""

    tally: Tally
    styles: dict[Style, list[SubmissionRow]]
    """The submissions that can be graded, by the style of their tests."""
    days: list[ClassDay]
    """The scores on the days on which something was graded; empty unless there are several."""

    def missed_before(self, count: BreakCount) -> float | None:
        """Return the share of the submissions that missed a break on the first day."""
        first = self.days[0]
        return first.missed[count.break_] / len(first.scores) if first.scores else None

    def missed_by_styles(self, count: BreakCount) -> list[float | None]:
        """Return the share of the submissions in each style that miss a break."""
        groups = self.styles.values()
        return [count.share_missed_among([row.submission for row in rows]) for rows in groups]

    @property
    def regraded(self) -> dict[str, list[PastScore]]:
        """The results of the submissions that were graded more than once."""
        history = self.tally.history
        return {name: scores for name, scores in history.items() if len(scores) > 1}


def class_page(tally: Tally) -> ClassPage:
    """Return what a page about a class shows."""
    days = tally.days()
    return ClassPage(tally, tally.by_style(), days if len(days) > 1 else [])


def median(scores: Sequence[float | None]) -> float | None:
    """Return the median of the scores of those that can be graded; None if none can."""
    known = [score for score in scores if score is not None]
    return statistics.median(known) if known else None


def to_markdown(tally: Tally) -> bytes:
    """Return tables of the breaks, those that most submissions miss first, and of the scores."""
    page, number = class_page(tally), len(tally.gradable)
    head = f"{counted(len(tally.rows), 'submission')}, {number} of them gradable."
    lines = ["# Which breaks the cohort misses", "", head, "", *_breaks(page)]
    if page.styles:
        styles = (
            [str(STYLE_NAMES[style]), str(len(rows)), _percent(median([row.score for row in rows]))]
            for style, rows in page.styles.items()
        )
        numbers = ["submissions", "median score"]
        lines += ["", "## By the style of the tests", ""]
        lines += markdown_table(["style", *numbers], styles, numbers)
    if page.days:
        days = (
            [day.day or "?", str(len(day.scores)), _percent(median(day.scores))]
            for day in page.days
        )
        numbers = ["gradable", "median score"]
        lines += ["", "## Day by day", ""]
        lines += markdown_table(["at the end of", *numbers], days, numbers)
    if page.regraded:
        past = (
            [_plain(name), ", ".join(_percent(one.score) for one in scores)]
            for name, scores in page.regraded.items()
        )
        lines += ["", "## Graded more than once", ""]
        lines += markdown_table(["submission", "scores"], past)
    return "\n".join([*lines, ""]).encode()


def _breaks(page: ClassPage) -> list[str]:
    """Return the lines of the table of breaks."""
    fates: tuple[Fate, ...] = ("killed", "survived", "not-reached", "recognised")
    numbers = ["level", "missed"]
    numbers += [f"missed on {page.days[0].day or 'the first day'}"] if page.days else []
    numbers += [fate.replace("-", " ") for fate in fates]
    numbers += [f"missed: {STYLE_NAMES[style]}" for style in page.styles]
    rows = (
        [
            f"`{count.break_}`",
            count.family,
            str(count.level),
            f"{count.share_missed:.0%}",
            *([_share(page.missed_before(count))] if page.days else []),
            *(str(count.fates[fate]) for fate in fates),
            *map(_share, page.missed_by_styles(count)),
            some([_plain(name) for name in count.missed_by], MOST),
        ]
        for count in page.tally.breaks
    )
    return markdown_table(["break", "family", *numbers, "missed by"], rows, numbers)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _percent(score: float | None) -> str:
    return "not gradable" if score is None else f"{score:g} %"


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
    for style, rows in tally.by_style().items():
        scored = _percent(median([row.score for row in rows]))
        yield f"Median of {counted(len(rows), 'suite')} with {STYLE_NAMES[style]}: {scored}"
    yield from _reasons([row for row in tally.rows if not row.gradable])
    if tally.damaged:
        yield f"Damaged lines in the results, which do not count: {tally.damaged}"


def regraded(name: str, scores: Sequence[PastScore]) -> str:
    """Return what a submission scores now, and what it scored before."""
    now, before = _percent(scores[-1].score), [_percent(past.score) for past in scores[-2:-1]]
    return f"{name}: {now}, and {before[0]} before" if before else f"{name}: {now}"


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
