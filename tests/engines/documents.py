"""Documents about third-party engines: the doctor's reports, and the outcomes of breaks in them.

    python -m tests.engines.documents        # writes docs/engines.md and docs/engines/*.txt

A test compares the committed files with what it would write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from harness.core.files import write_file
from harness.core.report import Report
from harness.doctor.diagnosis import Diagnosis, diagnose
from harness.experiment.baseline import Baseline, OpenContext
from harness.experiment.exploration import explore
from harness.experiment.lab import breaks_for, compare_pages
from harness.pages.catalogue import Catalogue, open_catalogue
from harness.report.doctor import show_diagnosis
from harness.report.terminal import WIDTH, Screen
from harness.report.view import STYLES
from harness.runs.cache import open_cache

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Listed:
    """An engine of the table."""

    title: str
    target: str
    unordered: bool = False
    """It keeps a node's parents in a set, whose order depends on memory addresses. So does what
    comes of a break in the order of the backward pass."""

    @property
    def module(self) -> str:
        """The distribution to install."""
        return self.target.partition(":")[0].partition(".")[0]


ENGINES = (
    Listed("HIPS autograd 1.9.1", "autograd:make_vjp"),
    Listed("mygrad 2.5.0", "mygrad:Tensor"),
    Listed("micrograd 0.1.0", "micrograd.engine:Value", unordered=True),
    Listed("nnetflow 2.0.5", "nnetflow.engine:Tensor", unordered=True),
)


def installed() -> list[Listed]:
    """The listed engines that are installed."""
    return [listed for listed in ENGINES if find_spec(listed.module)]


def report_of(diagnosis: Diagnosis, target: str) -> str:
    """The doctor's summary and the rest, on a terminal of 80 columns, without colour."""
    text = StringIO()
    screen = Screen(file=text, width=WIDTH, no_color=True, force_terminal=False, highlight=False)
    show_diagnosis(screen, diagnosis, target)
    screen.print("\n")
    show_diagnosis(screen, diagnosis, target, everything=True)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def examine(listed: Listed, catalogue: Catalogue, baseline: Baseline) -> str:
    """The doctor's report on an engine."""
    return report_of(diagnose(listed.target, catalogue, baseline), listed.target)


def try_breaks(
    listed: Listed, catalogue: Catalogue, baseline: Baseline, names: Sequence[str] = ()
) -> list[Report]:
    """What breaks come to in an engine; all of them by default."""
    engine = explore(listed.target, baseline.cache, catalogue.conventions).engine
    return list(
        compare_pages(breaks_for(catalogue, names), OpenContext(catalogue, engine, baseline))
    )


def write_table(tried: dict[Listed, list[Report]]) -> str:
    """A table of engines by breaks: the headline, the sites, and how many runs end as predicted."""
    by_break: dict[str, dict[str, Report]] = {}
    for listed, reports in tried.items():
        for report in reports:
            by_break.setdefault(report.break_, {})[listed.title] = report
    return "\n".join(_table(list(tried), by_break)) + "\n"


def _table(engines: Sequence[Listed], by_break: dict[str, dict[str, Report]]) -> Iterator[str]:
    yield "# Breaks in third-party engines"
    yield ""
    yield from (INTRODUCTION, "")
    yield f"| break | {' | '.join(listed.title for listed in engines)} |"
    yield f"| --- |{' --- |' * len(engines)}"
    nowhere = []
    for name, reports in by_break.items():
        if not any(report.runs or report.misplaced for report in reports.values()):
            nowhere.append(name)
            continue
        cells = " | ".join(_cell(reports[listed.title]) for listed in engines)
        yield f"| `{name}` | {cells} |"
    yield ""
    yield f"{len(nowhere)} others have no site in any of them, or no probe that runs on it:"
    yield "the code that they change is specific to minigrad (layers, say) or written differently."
    yield ""
    yield "The doctor's reports: " + ", ".join(
        f"[{listed.title}](engines/{listed.module}.txt)" for listed in engines
    )


INTRODUCTION = """\
Written by `python -m tests.engines.documents`. Each engine is the unmodified release; the breaks
are applied to its source in memory. A cell has the headline (✗ crash, ≠ silent corruption, =
disguised as correct, · not reached, ~ a convention), the number of sites, and how many runs end
as the page predicts for engines that accumulate gradients as this one does. A crash in place of a
silent corruption is not a failure: it is how this engine responds to the same bug. micrograd and
nnetflow keep a node's parents in a set, whose order depends on memory addresses: there, the result
of a break in the order of the backward pass varies from one process to the next. A dash: the
break has no site in the engine, or the engine cannot run any probe of its page.
Misplaced: the patch is not the change that the page describes."""


def _cell(report: Report) -> str:
    if report.misplaced:
        return "misplaced"
    if not report.runs:
        return "-"
    same, stated = report.agreement
    sites = f"{len(report.sites)} site{'s' * (len(report.sites) != 1)}"
    return f"{STYLES[report.headline][0]} {sites}, {same}/{stated}"


def main(engines: Iterable[Listed]) -> None:
    """Write the reports and the table."""
    catalogue, tried = open_catalogue([]), {}
    (DOCS / "engines").mkdir(exist_ok=True)
    for listed in engines:
        baseline = Baseline(
            open_cache(), diagnostics=()
        )  # neither the doctor nor outcomes need any
        text = examine(listed, catalogue, baseline)
        write_file(DOCS / "engines" / f"{listed.module}.txt", text)
        tried[listed] = try_breaks(listed, catalogue, baseline)
        print(listed.title, file=sys.stderr)
    write_file(DOCS / "engines.md", write_table(tried))


if __name__ == "__main__":
    main(installed())
