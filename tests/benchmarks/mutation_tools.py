"""The same engine and the same suite under mutmut, cosmic-ray and our runner: seconds a mutant.

    python -m tests.benchmarks.mutation_tools [--quick] [--json] [--tools NAMES] [--sample N]

Each tool makes its own mutants of `mutated/small.py`, and runs `mutated/suite.py` on each of them,
with one worker. Ours are pages with a patch that changes an operator, a comparison, a constant or
an argument. A tool that is not installed is skipped, with the remedy. README.md says what is
compared, and how it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from harness.engines.engine import Dialect, Engine
from harness.grade.files import read_submission
from harness.grade.grading import _Grading, _SuiteRunner
from harness.grade.mutants import mutants
from harness.grade.plan import GradingPlan
from harness.grade.processes import EngineResults, Processes
from harness.grade.protocol import LIMIT_REACHED
from harness.pages.catalogue import ENTRY_POINTS, Catalogue
from harness.runs.cache import open_cache
from tests.benchmarks.engine import ONE_THREAD, ROOT
from tests.benchmarks.mutations import mutations
from tests.benchmarks.report import machine
from tests.suites import PLUGIN

MUTATED = Path(__file__).parent / "mutated"

TARGETS = {"mutmut": 5.0, "cosmic-ray": 50.0}
"""How many times our seconds a mutant the others shall need."""

PINNED = {"mutmut": "mutmut==3.8.1", "cosmic-ray": "cosmic-ray==8.7.0"}
"""What the measurements in README.md were taken with."""

PAGES = "small_mutants"
"""The package of pages."""

PAGE = """\
+++
id = "{name}"
kind = "break"
family = "mutants"
level = 1
+++

# A mutant

## Hypothesis

A test fails.

## The break

```diff engine=small
{hunk}```
"""

MUTMUT = """\
[mutmut]
source_paths = small.py
pytest_add_cli_args_test_selection = test_small.py
also_copy =
    conftest.py
    test_small.py
"""

COSMIC_RAY_LIMIT = 20.0
"""Seconds for the suite on a mutant."""

COSMIC_RAY = f"""\
[cosmic-ray]
module-path = "small.py"
timeout = {COSMIC_RAY_LIMIT}
excluded-modules = []
test-command = "{sys.executable} -m pytest -x -q -p no:cacheprovider test_small.py"

[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True)
class Verdicts:
    """How many mutants there are, and how many of them the suite let pass."""

    mutants: int
    survivors: int
    late: int = 0
    """How many ran out of time: their number and the limit of the tool decide what they cost."""
    late_seconds: float = 0.0
    """What these took."""


@dataclass(frozen=True)
class Result(Verdicts):
    """What a tool found out, and what that cost."""

    tool: str = ""
    version: str = ""
    wall: float = 0.0
    """Seconds from the start of its process to the end."""
    processor: float = 0.0
    """Seconds of processor time, children included."""

    @property
    def each(self) -> float:
        """Seconds of processor time for each mutant that did not run out of time."""
        return (self.processor - self.late_seconds) / (self.mutants - self.late)


def main() -> int:
    """Run every tool that is there, and print the table."""
    parser = argparse.ArgumentParser(description="Compare mutation tools.")
    parser.add_argument("--quick", action="store_true", help="only ours, on ten mutants: a test")
    parser.add_argument("--json", action="store_true", help="print JSON; the table goes to stderr")
    parser.add_argument("--tools", metavar="NAMES", help="the other tools to measure")
    parser.add_argument(
        "--sample", type=int, metavar="N", default=10**6, help="at most N of cosmic-ray's mutants"
    )
    parser.add_argument("--ours", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        print(json.dumps(asdict(run_ours(options.ours))))
        return 0
    most = 10 if options.quick else 10**6
    results = [
        measure("breaklab", lambda folder: breaklab(folder, most)),
        measure("unconfined", lambda folder: pytest_breaks(folder, most)),
    ]
    missing = []
    others: dict[str, Callable[[Path], Verdicts]] = {
        "mutmut": mutmut,
        "cosmic-ray": lambda folder: cosmic_ray(folder, options.sample),
    }
    chosen = others if options.tools is None else options.tools.split(",")
    for tool, run in others.items():
        if not _version(tool):
            missing.append(f"skipped: {tool} is not installed: pip install {PINNED[tool]}")
        elif tool in chosen and not options.quick:
            results.append(measure(tool, run))
    console = Console(width=80, stderr=options.json)
    about = machine(ONE_THREAD)
    console.print(f"{about['processor']}; Python {about['python']}; one worker each\n")
    if options.quick:
        console.print(
            "ours alone, ten mutants: whether it works, not how fast it is\n", style="bold"
        )
    console.print(table(results))
    for line in missing:
        console.print(line)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    return 0


def measure(tool: str, run: Callable[[Path], Verdicts]) -> Result:
    """Run a tool in a project of its own that is removed again."""
    with tempfile.TemporaryDirectory(prefix="mutated-") as name:
        folder = Path(name)
        shutil.copy(MUTATED / "small.py", folder)
        shutil.copy(MUTATED / "conftest.py", folder)
        shutil.copy(MUTATED / "suite.py", folder / "test_small.py")
        start, used = time.perf_counter(), _processor()
        verdicts = asdict(run(folder))
        wall, processor = time.perf_counter() - start, _processor() - used
    return Result(
        **verdicts,
        tool=tool,
        version=_version(tool),
        wall=round(wall, 3),
        processor=round(processor, 3),
    )


def table(results: list[Result]) -> Table:
    """A line a tool; `late` is what mutants that ran out of time took, which `a mutant` leaves out.

    `ratio` is the processor time a mutant over ours.
    """
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown.add_column("tool", no_wrap=True)
    for heading in ("mutants", "survive", "CPU", "late", "a mutant", "ratio", "target", ""):
        shown.add_column(heading, justify="right", no_wrap=True)
    first = results[0]
    for one in results:
        target = TARGETS.get(one.tool)
        ratio = one.each / first.each
        shown.add_row(
            f"{one.tool} {one.version}",
            *(str(one.mutants), str(one.survivors)),
            *(f"{one.processor:.1f} s", f"{one.late_seconds:.1f} s", f"{1000 * one.each:.1f} ms"),
            *(f"{ratio:.1f}", f"{target:g}", "reached" if ratio >= target else "missed")
            if target
            else (),
        )
    return shown


def _processor() -> float:
    """Of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _version(tool: str) -> str:
    try:
        return version(tool)
    except PackageNotFoundError:
        return ""


# ----- The others -----


def mutmut(folder: Path) -> Verdicts:
    """`mutmut run` with one child at a time."""
    (folder / "setup.cfg").write_text(MUTMUT, encoding="utf-8")
    _run([sys.executable, "-m", "mutmut", "run", "--max-children", "1"], folder)
    said = _run([sys.executable, "-m", "mutmut", "results", "--all", "true"], folder)
    pairs = [line.strip().rpartition(": ") for line in said.splitlines() if ": " in line]
    fates = {mutant: fate for mutant, _, fate in pairs}
    found = json.loads((folder / "mutants" / "small.py.meta").read_text("utf-8"))
    late = [mutant for mutant, fate in fates.items() if fate == "timeout"]
    return Verdicts(
        mutants=len(fates),
        survivors=list(fates.values()).count("survived"),
        late=len(late),
        late_seconds=sum(found["durations_by_key"][mutant] for mutant in late),
    )


def cosmic_ray(folder: Path, most: int) -> Verdicts:
    """`cosmic-ray init` and `exec` with the local distributor: one mutant after the other."""
    (folder / "cosmic.toml").write_text(COSMIC_RAY, encoding="utf-8")
    tool = [sys.executable, "-m", "cosmic_ray.cli"]
    _run([*tool, "init", "cosmic.toml", "session.sqlite"], folder)
    _keep_sample(folder / "session.sqlite", most)
    _run([*tool, "exec", "cosmic.toml", "session.sqlite"], folder)
    said = _run([*tool, "dump", "session.sqlite"], folder)
    results = [json.loads(line)[1] for line in said.splitlines()]
    late = [result for result in results if result["output"] == "timeout"]
    return Verdicts(
        mutants=len(results),
        survivors=sum(result["test_outcome"] == "survived" for result in results),
        late=len(late),
        late_seconds=COSMIC_RAY_LIMIT * len(late),
    )


def _keep_sample(session: Path, most: int) -> None:
    """Keep at most this many mutants, evenly spaced."""
    with closing(sqlite3.connect(session)) as database, database:
        jobs = [job for (job,) in database.execute("SELECT job_id FROM work_items")]
        kept = set(jobs[:: -(-len(jobs) // most)])
        removed = [(job,) for job in jobs if job not in kept]
        for rows in ("mutation_specs", "work_items"):
            database.executemany(f"DELETE FROM {rows} WHERE job_id = ?", removed)


def _run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **ONE_THREAD, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{said}")
    return done.stdout


# ----- Ours -----


def breaklab(folder: Path, most: int) -> Verdicts:
    """The confined process of `harness grade`, with one run for each mutant."""
    write_pages(folder, most)
    command = [sys.executable, "-m", "tests.benchmarks.mutation_tools", "--ours", str(folder)]
    return Verdicts(**json.loads(_run(command, ROOT)))


def pytest_breaks(folder: Path, most: int) -> Verdicts:
    """`pytest --breaks` with the mutants as the pages of an installed package."""
    write_pages(folder, most)
    report = folder / "report.json"
    tests = ["test_small.py", "-q", "-p", "no:cacheprovider", *PLUGIN]
    engine = f"--breaks-engine={folder / 'small.py'}:Tensor"
    options = ["--breaks=family:mutants", engine, f"--breaks-json={report}"]
    path = os.pathsep.join([str(ROOT), str(folder)])
    own = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
    _run([sys.executable, "-m", "pytest", *tests, *options], folder, own)
    results = json.loads(report.read_text("utf-8"))["breaks"]
    passed = [result for result in results if result["fate"] != "killed"]
    late = [
        result["seconds"]
        for result in results
        if result["fate"] == "killed" and not result["by"][0].startswith("test_small.py")
    ]
    return Verdicts(len(results), len(passed), len(late), sum(late))


def write_pages(folder: Path, most: int) -> None:
    """Write the mutants of the engine as pages, in a package that installs them."""
    package, installed = folder / PAGES, folder / f"{PAGES}-1.0.dist-info"
    package.mkdir()
    installed.mkdir()
    (package / "__init__.py").touch()
    about = f"Metadata-Version: 2.1\nName: {PAGES}\nVersion: 1.0\n"
    (installed / "METADATA").write_text(about, encoding="utf-8")
    entry = f"[{ENTRY_POINTS}]\nmutants = {PAGES}\n"
    (installed / "entry_points.txt").write_text(entry, encoding="utf-8")
    hunks = mutations((folder / "small.py").read_text("utf-8"))
    for number, hunk in enumerate(islice(hunks, most)):
        name = f"mutant-{number}"
        page = PAGE.format(name=name, hunk=hunk)
        (package / f"{name}.md").write_text(page, encoding="utf-8")


def run_ours(folder: Path) -> Verdicts:
    """Run on each mutant the tests that reach it, until one fails."""
    text, suite = (folder / "small.py").read_text("utf-8"), folder / "test_small.py"
    engine = Engine("small", Dialect("small"), folder, {"small.py": text})
    pages = Catalogue((folder / PAGES,)).valid_pages()
    plan = GradingPlan(engine, tuple(mutants(pages, engine, open_cache(enabled=False))), (), b"")
    with closing(Processes(suite, read_submission(suite), plan)) as processes:
        return verdicts(processes, plan)


def verdicts(processes: Processes, plan: GradingPlan) -> Verdicts:
    """Run the tests on each mutant."""
    grading = _Grading(plan, lambda _done, _all: None)
    grading.processes = processes
    processes.collect()
    grading._run_on_clean()
    survivors, late = 0, []
    for mutant in plan.breaks:
        assert mutant.files.codes, f"{mutant.page.id} does not apply"
        observed, start = EngineResults(), time.perf_counter()
        if tests := _SuiteRunner(grading, mutant).tests():
            observed = processes.observe(mutant.files.codes, tests, stop=True)
        grading.kills.update(observed.failed)
        survivors += not (observed.failed or observed.problem)
        if observed.problem == LIMIT_REACHED:
            late.append(time.perf_counter() - start)
    return Verdicts(len(plan.breaks), survivors, len(late), sum(late))


if __name__ == "__main__":
    sys.exit(main())
