"""Tables of what the suites in `tests/suites` see: docs/grading.md, and by unit docs/course.md.

    python -m tests.suite_tables        # runs all suites on the whole catalogue, 5 minutes

A test compares a part of it with what a run gives.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.core.files import write_file
from harness.pages.catalogue import open_catalogue
from harness.report import markdown_table
from harness.report.documents import with_text
from tests.suites import ROOT, SUITES, Suite

OWN_TESTS = Suite("own", "all of minigrad's own unit tests", ("tests/minigrad", "-m", "not slow"))
DOCUMENT, COURSE = ROOT / "docs/grading.md", ROOT / "docs/course.md"
START = "<!-- made by python -m tests.suite_tables -->\n"

Results = list[dict[str, Any]]
"""The entries `breaks` of a report."""


def results_of(suite: Suite, selection: str = "all") -> Results:
    """Run `pytest --breaks`, and return what became of each break."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = [f"--breaks={selection}", f"--breaks-json={report}"]
        command = [sys.executable, "-m", "pytest", *suite.arguments, *options]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        results: Results = json.loads(report.read_text(encoding="utf-8"))["breaks"]
    return results


def column(results: Results) -> dict[str, str]:
    """Return the cells of a suite: killed of reached for each family, and the sums."""
    families = sorted({result["family"] for result in results})
    cells = {family: _killed(r for r in results if r["family"] == family) for family in families}
    number = sum(result["fate"] != "does-not-apply" for result in results)
    killed = sum(result["fate"] == "killed" for result in results)
    return {
        **cells,
        "**all families**": _killed(results),
        "not reached": str(sum(result["fate"] == "not-reached" for result in results)),
        "score": f"{100 * killed / number:.1f} %",
    }


def _killed(results: Iterable[Mapping[str, Any]]) -> str:
    fates = [result["fate"] for result in results]
    reached = sum(fate in ("killed", "survived") for fate in fates)
    return f"{fates.count('killed')} of {reached}" if reached else "-"


def suites_table(columns: Mapping[Suite, Mapping[str, str]]) -> str:
    """Return the list of the suites, and the table."""
    styles = "".join(f"- `{suite.name}`: {suite.style}\n" for suite in columns)
    names = next(iter(columns.values()))
    rows = [[name, *(cells[name] for cells in columns.values())] for name in names]
    head = ["family", *(f"`{suite.name}`" for suite in columns)]
    return "\n".join([styles, *markdown_table(head, rows), ""])


def units_table(results: Results) -> str:
    """Return what a suite sees of the selection of each unit of the course."""
    fates = {result["break"]: result for result in results}
    rows = []
    for name, unit in open_catalogue().course.items():
        chosen = [fates[page] for page in unit.listed if page in fates]
        missed = sum(result["fate"] == "not-reached" for result in chosen)
        # A unit whose breaks need many seeds has no selection: a test suite cannot be graded on it.
        row = (f"`unit:{name}`", _killed(chosen), str(missed)) if chosen else ("-", "-", "-")
        rows.append((unit.title, *row))
    head = ("unit", "selection", "killed of reached", "not reached")
    return "\n".join([*markdown_table(head, rows), ""])


def main() -> None:
    """Update the documents."""
    columns = {}
    for suite in SUITES:
        columns[suite] = column(results_of(suite))
        print(suite.name, columns[suite]["score"], file=sys.stderr)
    page = DOCUMENT.read_text(encoding="utf-8")
    write_file(DOCUMENT, with_text(page, suites_table(columns), START))
    page = COURSE.read_text(encoding="utf-8")
    table = units_table(results_of(OWN_TESTS))
    write_file(COURSE, with_text(page, table, START))


if __name__ == "__main__":
    main()
