"""The table of diagnostics: docs/diagnostics.md holds what the registry says."""

from pathlib import Path

import pytest

from harness.diagnostics import DIAGNOSTICS
from harness.report.diagnostics_table import END, PAGE, START, diagnostics_table, with_table

ROOT = Path(__file__).parents[2]


def test_the_page_holds_exactly_the_table_of_the_registry() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == with_table(page), "run: python -m harness.report.diagnostics_table"


def test_the_table_has_a_row_of_four_cells_for_each_diagnostic() -> None:
    head, ruler, *rows = diagnostics_table().splitlines()
    assert [row.split("`")[1] for row in rows] == [each.name for each in DIAGNOSTICS]
    assert {row.count("|") for row in (head, ruler, *rows)} == {5}


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"before\n{START}old\n{END}after\n"
    assert with_table(page) == f"before\n{START}{diagnostics_table()}{END}after\n"
    with pytest.raises(ValueError, match="no markers"):
        with_table("before and after\n")
