"""`pytest --breaks` against the plain ways to run a test suite on every break.

    python -m tests.benchmarks.suites                        # all suites, 5 minutes
    python -m tests.benchmarks.suites --compare-all          # every verdict compared, 15 minutes
    python -m tests.benchmarks.suites course --breaks family:broadcasting

For each suite, the processor time per break, in milliseconds:

    fresh      `python -m pytest` in a new process that loads the broken engine (7 of the breaks)
    reimport   a process that has imported pytest and NumPy forks, imports the broken engine,
               collects the tests and runs them until one fails (24 of the breaks, or all)
    breaks     `pytest --breaks`; the run without a break is subtracted

and whether `breaks` and `reimport` agree on which breaks are killed. Mutation testers take one of
the first two ways: cosmic-ray starts pytest again for each mutant, mutmut forks and collects again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness.engines.engine import Engine, find_engine
from harness.engines.loading import find_in_memory
from harness.grade.mutants import Mutant, mutants, select
from harness.grade.running import fix_hypothesis
from harness.pages.catalogue import open_catalogue
from harness.plugin.reloads import run_reloaded
from harness.runs.cache import open_cache
from tests.benchmarks.engine import children_seconds
from tests.suites import ROOT, SUITES, Suite

FRESH, REIMPORTED = 7, 24
"""The numbers of breaks that are run in a fresh process, or imported again; evenly spaced."""


@dataclass(frozen=True)
class Comparison:
    """One suite: milliseconds of processor time per break, and the verdicts that differ."""

    suite: str
    breaks: int
    compared: int
    """The breaks that were imported again, too."""
    killed: int
    reloaded: int
    """The breaks that cannot be swapped."""
    fresh: float
    reimport: float
    ours: float
    differences: dict[str, str]


def compare(suite: Suite, selection: str, *, every: bool = False) -> Comparison:
    """Measure the designs on one suite, and compare their verdicts."""
    engine = find_engine()
    chosen = mutants(select(open_catalogue(), selection), engine, open_cache())
    chosen = [mutant for mutant in chosen if mutant.files.codes]
    few = _sample(chosen, FRESH)
    fresh = children_time(lambda: [_fresh(suite, mutant, engine) for mutant in few])
    imported = chosen if every else _sample(chosen, REIMPORTED)
    verdicts, reimport = _reimported(suite, imported, engine)
    entries, ours = _ours(suite, selection)
    fates = {entry["break"]: entry["fate"] for entry in entries}
    differences = {
        mutant.page.id: f"{fates[mutant.page.id]}, reimported: {verdict}"
        for mutant, verdict in zip(imported, verdicts, strict=True)
        if (fates[mutant.page.id] == "killed") != (verdict == "killed")
    }
    return Comparison(
        suite=suite.name,
        breaks=len(chosen),
        compared=len(imported),
        killed=sum(fate == "killed" for fate in fates.values()),
        reloaded=sum(entry["path"] == "reloaded" for entry in entries),
        fresh=1000 * fresh / len(few),
        reimport=1000 * reimport / len(imported),
        ours=1000 * ours / len(chosen),
        differences=differences,
    )


def _sample(chosen: Sequence[Mutant], number: int) -> Sequence[Mutant]:
    return chosen[:: max(1, len(chosen) // number)]


def children_time(function: Callable[[], object]) -> float:
    """Return the processor time of the processes that a function starts and waits for."""
    before = children_seconds()
    function()
    return children_seconds() - before


# ----- A fresh process -----


def sources_of(mutant: Mutant, engine: Engine) -> dict[str, str]:
    return {**engine.sources, **mutant.files.texts}


def _fresh(suite: Suite, mutant: Mutant, engine: Engine) -> None:
    run_reloaded(engine.root, sources_of(mutant, engine), suite.arguments, ROOT, limit=600)


# ----- Fork and import -----


def _reimported(suite: Suite, chosen: Sequence[Mutant], engine: Engine) -> tuple[list[str], float]:
    """Return the verdict on each break, and the processor time of all."""
    verdicts = []
    before = children_seconds()
    for mutant in chosen:
        pid = os.fork()
        if pid == 0:
            _import_and_run(suite, mutant, engine)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        verdicts.append("survived" if status == 0 else "killed")
    return verdicts, children_seconds() - before


def _import_and_run(suite: Suite, mutant: Mutant, engine: Engine) -> NoReturn:
    with contextlib.suppress(BaseException):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        fix_hypothesis()
        patched = _Patched(engine.root, sources_of(mutant, engine))
        os._exit(int(pytest.main([*suite.arguments, "-x", "--tb=no"], plugins=[patched])))
    os._exit(70)


@dataclass(frozen=True)
class _Patched:
    """Lets the tests find a broken engine, even before pytest's own import hook."""

    root: Path
    sources: dict[str, str]

    def pytest_collection(self) -> None:
        """Install the engine."""
        find_in_memory(self.root, self.sources)


# ----- pytest --breaks -----


def _ours(suite: Suite, selection: str) -> tuple[list[dict[str, Any]], float]:
    """Return the result of each break, and the processor time beside that of the suite itself."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = [f"--breaks={selection}", f"--breaks-json={report}"]
        _pytest([*suite.arguments, *options])  # fills the cache
        whole = children_time(lambda: _pytest([*suite.arguments, *options]))
        alone = children_time(lambda: _pytest(suite.arguments))
        entries: list[dict[str, Any]] = json.loads(report.read_text())["breaks"]
    return entries, whole - alone


def _pytest(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pytest", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


# ----- The table -----


def main() -> int:
    """Print a table. The status is 1 if the designs disagree about a break."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(names))
    parser.add_argument("--breaks", default="all", help="as for pytest")
    parser.add_argument("--compare-all", action="store_true", help="compare every verdict")
    options = parser.parse_args()
    chosen = [suite for suite in SUITES if suite.name in (options.suites or names)]
    for library in ("numpy", "numpy.testing", "unittest"):
        importlib.import_module(library)
    disagree = [
        _show_comparison(compare(suite, options.breaks, every=options.compare_all))
        for suite in chosen
    ]
    return int(any(disagree))


def _show_comparison(row: Comparison) -> bool:
    """Print a row; return whether the designs disagree."""
    print(
        f"{row.suite:10} {row.breaks} breaks, {row.killed} killed, {row.reloaded} reloaded, "
        f"{len(row.differences)} of {row.compared} verdicts differ | ms per break: "
        f"fresh {row.fresh:.0f}, reimport {row.reimport:.0f}, "
        f"breaks {row.ours:.1f} | "
        f"1/{row.fresh / row.ours:.0f} of fresh, 1/{row.reimport / row.ours:.0f} of reimport",
        flush=True,
    )
    for name, difference in row.differences.items():
        print(f"    {name}: {difference}")
    return bool(row.differences)


if __name__ == "__main__":
    sys.exit(main())
