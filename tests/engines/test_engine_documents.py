"""The committed documents about third-party engines agree with the current results."""

import re

import pytest

from harness.experiment.baseline import Baseline
from harness.pages.catalogue import open_catalogue
from harness.runs.cache import open_cache
from tests.engines.documents import (
    DOCS,
    ENGINES,
    Listed,
    examine,
    installed,
    try_breaks,
    write_table,
)


def baseline() -> Baseline:
    return Baseline(open_cache(), diagnostics=())


OF_THE_DEFAULT_TIER = "micrograd"
"""The smallest of the engines."""
SLOW = {"assign-not-accumulate", "relu-identity-grad"}
"""Breaks with probes that train, which takes seconds on this engine."""


@pytest.mark.slow
@pytest.mark.parametrize("listed", ENGINES, ids=lambda listed: listed.module)
def test_the_doctor_says_what_is_committed(listed: Listed) -> None:
    pytest.importorskip(listed.module)
    committed = (DOCS / "engines" / f"{listed.module}.txt").read_text(encoding="utf-8")
    report = examine(listed, open_catalogue([]), baseline())
    if listed.unordered:
        report, committed = _settled(report), _settled(committed)
    assert report == committed


@pytest.mark.slow
def test_the_table_is_the_committed_one() -> None:
    if len(installed()) < len(ENGINES):
        pytest.skip("not all of the engines are installed")
    catalogue = open_catalogue([])
    tried = {listed: try_breaks(listed, catalogue, baseline()) for listed in ENGINES}
    committed = (DOCS / "engines.md").read_text(encoding="utf-8")
    assert _steady(write_table(tried)) == _steady(committed)


def test_some_breaks_come_to_what_is_committed() -> None:
    """In a column of the table."""
    (listed,) = (listed for listed in ENGINES if listed.module == OF_THE_DEFAULT_TIER)
    pytest.importorskip(listed.module)
    committed = _rows((DOCS / "engines.md").read_text(encoding="utf-8"), ENGINES.index(listed))
    found = [name.strip("`") for name, cell in committed.items() if cell != "-"]
    some = [name for name in found if name not in SLOW and name not in OF_ORDER]
    reports = try_breaks(listed, open_catalogue([]), baseline(), some)
    assert len(some) > 5
    assert _rows(write_table({listed: reports})) == {
        f"`{name}`": committed[f"`{name}`"] for name in some
    }


def _settled(report: str) -> str:
    """Remove what is said about breaks whose result depends on the order of a set: `OF_ORDER`."""
    entry = re.compile(rf"^  (?:{'|'.join(OF_ORDER)}) .*\n(?: {{5,}}.*\n)*", re.M)
    return re.sub(r"\d+ (of \d+ can be)", r"\1", entry.sub("", report))


def _rows(table: str, column: int = 0) -> dict[str, str]:
    """What the table says in a column, by break."""
    rows = (row.strip("| ").split(" | ") for row in _steady(table).splitlines() if "| `" in row)
    return {name: cells[column] for name, *cells in rows}


def _steady(table: str) -> str:
    """Remove what depends on memory addresses in engines that keep their graph in sets."""
    unordered = [column for column, listed in enumerate(ENGINES, 2) if listed.unordered]
    rows = []
    for row in table.splitlines():
        if any(f"`{page}`" in row for page in OF_ORDER):
            cells = row.split("|")
            row = "|".join(" ? " if at in unordered else cell for at, cell in enumerate(cells))
        rows.append(re.sub(r", \d+/\d+", "", row))
    return "\n".join(rows)


OF_ORDER = ("forward-order", "skip-second-parent", "preorder-append", "visited-missing")
