"""The suites in `tests/suites`: the benchmark, and the table in the documentation."""

import re
import subprocess
import sys

import pytest

from harness.grade.mutants import select
from harness.report.documents import END
from tests.harness.bundled import CATALOGUE
from tests.suite_tables import COURSE, DOCUMENT, START, column, results_of
from tests.suites import ROOT, SUITES

SELECTION = "skip-unbroadcast,tape-gradient-in-target-shape"


@pytest.mark.slow
def test_swapped_breaks_are_judged_like_imported_ones() -> None:
    """In a process of its own: this one has imported the unbroken engine."""
    command = [sys.executable, "-m", "tests.benchmarks.suites", "course", "--breaks", SELECTION]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "course " in done.stdout


@pytest.mark.slow
def test_the_documented_table_is_what_a_run_gives() -> None:
    """One suite on one family; `python -m tests.suite_tables` makes all of it."""
    (suite,) = (suite for suite in SUITES if suite.name == "course")
    cells = column(results_of(suite, "family:broadcasting"))
    made = DOCUMENT.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    table = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in made.splitlines()
        if line.startswith("|")
    ]
    place = table[0].index(suite.name)
    committed = {row[0]: row[place] for row in table}
    assert cells["broadcasting"] == committed["broadcasting"], "run: -m tests.suite_tables"


def test_the_table_of_the_course_is_about_the_selections_of_its_units() -> None:
    row = re.compile(r"^\| [^|]+ \| `(unit:\w+)` \| (\d+) of (\d+) \| (\d+) \|$", re.M)
    rows = row.findall(COURSE.read_text(encoding="utf-8"))
    counts = {name: int(reached) + int(missed) for name, _, reached, missed in rows}
    units = [f"unit:{name}" for name in CATALOGUE.course if name != "seeds"]  # it has no probes
    assert counts == {unit: len(select(CATALOGUE, unit)) for unit in units}
