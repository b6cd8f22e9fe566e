"""`pytest --breaks` against the plain ways to run a test suite on every break.

    python -m tests.benchmarks.suites                    # all suites, about 10 minutes
    python -m tests.benchmarks.suites tests/suites/course.py --breaks family:broadcasting

For each suite, the processor time per break of three designs, measured in one run:

    fresh      `python -m pytest` in a new process that loads the broken engine (a sample of breaks)
    reimport   a process that has imported pytest and NumPy forks, imports the broken engine,
               collects the tests and runs them until one fails
    breaks     `pytest --breaks`; the run without a break is subtracted

and whether `breaks` and `reimport` agree on which breaks are killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from harness.engines.engine import Engine, find_engine
from harness.engines.loader import find_in_memory
from harness.grade.mutants import Mutant, mutants, select
from harness.grade.running import fix_hypothesis
from harness.pages.catalogue import open_catalogue
from harness.plugin.reloading import run_reloaded
from harness.runs.cache import open_cache
from tests.suites import PLUGIN

ROOT = Path(__file__).parents[2]
SUITES = tuple(sorted(map(str, (ROOT / "tests/suites").glob("[a-z]*.py"))))
SAMPLE = 4
"""The number of breaks that are run in a fresh process."""


@dataclass(frozen=True)
class Comparison:
    """One suite: milliseconds of processor time per break, and the verdicts that differ."""

    suite: str
    breaks: int
    killed: int
    fresh: float
    reimport: float
    ours: float
    differences: dict[str, str]


def compare(suite: str, selection: str) -> Comparison:
    """Measure the designs on one suite, and compare their verdicts."""
    engine = find_engine()
    chosen = mutants(select(open_catalogue(), selection), engine, open_cache())
    chosen = [mutant for mutant in chosen if mutant.files.codes]
    fresh = _processor_time(lambda: [_fresh(suite, mutant, engine) for mutant in chosen[:SAMPLE]])
    killed, reimport = _reimported(suite, chosen, engine)
    fates, ours = _ours(suite, selection)
    differences = {
        mutant.page.id: f"{fates[mutant.page.id]}, reimported: {verdict}"
        for mutant, verdict in zip(chosen, killed, strict=True)
        if (fates[mutant.page.id] == "killed") != (verdict == "killed")
    }
    return Comparison(
        suite=Path(suite).stem,
        breaks=len(chosen),
        killed=killed.count("killed"),
        fresh=1000 * fresh / min(SAMPLE, len(chosen)),
        reimport=1000 * reimport / len(chosen),
        ours=1000 * ours / len(chosen),
        differences=differences,
    )


def _processor_time(function: object) -> float:
    before = _children()
    assert callable(function)
    function()
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _fresh(suite: str, mutant: Mutant, engine: Engine) -> None:
    root, sources = engine.root, mutant.sources_in(engine)
    run_reloaded(root, sources, [*_PLUGIN, suite], ROOT, limit=600)


def _reimported(suite: str, chosen: Sequence[Mutant], engine: Engine) -> tuple[list[str], float]:
    """Return the verdict on each break, and the processor time of all."""
    verdicts = []
    before = _children()
    for mutant in chosen:
        pid = os.fork()
        if pid == 0:
            _import_and_run(suite, mutant, engine)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        verdicts.append("survived" if status == 0 else "killed")
    return verdicts, _children() - before


def _import_and_run(suite: str, mutant: Mutant, engine: Engine) -> NoReturn:
    with contextlib.suppress(BaseException):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        fix_hypothesis()
        patched = _Patched(engine.root, mutant.sources_in(engine))
        os._exit(int(pytest.main([suite, *_PLAIN, "-x", "--tb=no"], plugins=[patched])))
    os._exit(70)


@dataclass(frozen=True)
class _Patched:
    """Lets the tests find a broken engine, even before pytest's own import hook."""

    root: Path
    sources: dict[str, str]

    def pytest_collection(self) -> None:
        """Install the engine."""
        find_in_memory(self.root, self.sources)


_OWN = ("-c", os.devnull, f"--rootdir={ROOT}", "--noconftest")
_PLAIN = ("-q", *_OWN, "-p", "no:cacheprovider", "-p", "no:xdist")
_PLUGIN = (*_OWN, *PLUGIN)


def _ours(suite: str, selection: str) -> tuple[dict[str, str], float]:
    """Return the fate of each break, and the processor time beside that of the suite itself."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", suite, *_PLAIN, *PLUGIN]
        options = [f"--breaks={selection}", f"--breaks-json={report}"]
        run = [*command, *options]
        subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # fills the cache
        whole = _processor_time(
            lambda: subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        )
        alone = _processor_time(
            lambda: subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        )
        entries = json.loads(report.read_text())["breaks"]
    return {entry["break"]: entry["fate"] for entry in entries}, whole - alone


def main() -> int:
    """Print a table. The status is 1 if the designs disagree about a break."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=SUITES)
    parser.add_argument("--breaks", default="all", help="as for pytest")
    options = parser.parse_args()
    disagree = False
    print("suite        breaks killed | ms per break: fresh reimport breaks | ratios | differences")
    for suite in options.suites:
        if Path(suite).stem == "__init__":
            continue
        row = compare(str(Path(suite).resolve()), options.breaks)
        print(
            f"{row.suite:12} {row.breaks:6} {row.killed:6} | {row.fresh:19.0f} {row.reimport:8.0f} "
            f"{row.ours:6.1f} | 1/{row.fresh / row.ours:.0f} 1/{row.reimport / row.ours:.0f} | "
            f"{len(row.differences)}",
            flush=True,
        )
        for name, difference in row.differences.items():
            print(f"    {name}: {difference}")
        disagree |= bool(row.differences)
    return int(disagree)


if __name__ == "__main__":
    sys.exit(main())
