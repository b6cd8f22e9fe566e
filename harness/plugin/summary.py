"""Which test kills which breaks, for the end of a run with `-v`."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator

from harness.core.vocabulary import visible
from harness.grade.suite import SuiteReport


def kills_by_test(report: SuiteReport, width: int, *, every: bool) -> Iterator[str]:
    """Yield a line for each test that kills a break, the one that kills most first.

    `every` says that all tests were run on each break, and not only until one of them failed.
    """
    kills: defaultdict[str, list[str]] = defaultdict(list)
    for result in report.breaks:
        if result.fate == "killed":
            for test in result.by:
                kills[test].append(result.break_)
    if kills:
        first = "" if every else " (the first test that fails on each; --breaks-all runs all)"
        yield f"Killed by{first}:"
    for test, breaks in sorted(kills.items(), key=lambda item: -len(item[1])):
        line = f"  {test}: {', '.join(breaks)}"
        yield from textwrap.wrap(
            visible(line),
            width,
            subsequent_indent=" " * 6,
            break_long_words=False,
            break_on_hyphens=False,
        )
