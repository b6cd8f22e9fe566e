"""The same engine and the same suite under mutmut, cosmic-ray and our runner: seconds a mutant.

    python -m tests.benchmarks.mutation_tools [--quick] [--json]

Each tool makes its own mutants of `mutated/small.py`, and runs `mutated/suite.py` on each of them,
with one worker. Ours are patches in our notation: an operator, a comparison, a constant or an
argument changed. A tool that is not installed is left out, with the remedy. README.md says what is
compared, and how it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from harness.core.errors import HunkError
from harness.engines.engine import Dialect, Engine
from harness.pages.probe import Probe
from harness.patch import apply_patch, parse_patch
from harness.runs.coverage import functions_with_sites
from harness.runs.isolated import EngineDoesNotLoad, run_isolated
from harness.runs.protocol import Job
from harness.sandbox.limits import Limits
from tests.benchmarks.engine import ONE_THREAD, ROOT
from tests.benchmarks.mutations import mutations
from tests.benchmarks.report import machine

MUTATED = Path(__file__).parent / "mutated"

TARGETS = {"mutmut": 5.0, "cosmic-ray": 50.0}
"""How many times our seconds a mutant the others shall need."""

PINNED = {"mutmut": "mutmut==3.8.1", "cosmic-ray": "cosmic-ray==8.7.0"}
"""What the measurements in README.md were taken with."""

MUTMUT = """\
[mutmut]
source_paths = small.py
pytest_add_cli_args_test_selection = test_small.py
also_copy =
    conftest.py
    test_small.py
"""

COSMIC_RAY = f"""\
[cosmic-ray]
module-path = "small.py"
timeout = 20.0
excluded-modules = []
test-command = "{sys.executable} -m pytest -x -q -p no:cacheprovider test_small.py"

[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True)
class Result:
    """What a tool did: its mutants, those that the suite let pass, and what that cost."""

    tool: str
    version: str
    mutants: int
    survivors: int
    wall: float
    """Seconds from the start of its process to the end."""
    processor: float
    """Seconds of processor time, children included."""

    @property
    def each(self) -> float:
        """Seconds of processor time for each mutant."""
        return self.processor / self.mutants


def main() -> int:
    """Run every tool that is there, and print the table."""
    parser = argparse.ArgumentParser(description="Compare mutation tools.")
    parser.add_argument("--quick", action="store_true", help="only ours, on ten mutants: a test")
    parser.add_argument("--json", action="store_true", help="print JSON; the table goes to stderr")
    parser.add_argument("--ours", type=int, metavar="N", help=argparse.SUPPRESS)
    parser.add_argument("--unconfined", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        print(json.dumps(run_ours(options.ours, confined=not options.unconfined)))
        return 0
    most = 10 if options.quick else 10**6
    results = [
        measure("breaklab", lambda _: ours(most, confined=True)),
        measure("unconfined", lambda _: ours(most, confined=False)),
    ]
    missing = []
    for tool, run in (("mutmut", mutmut), ("cosmic-ray", cosmic_ray)):
        if not _version(tool):
            missing.append(f"skipped: {tool} is not installed: pip install {PINNED[tool]}")
        elif not options.quick:
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


def measure(tool: str, run: Callable[[Path], tuple[int, int]]) -> Result:
    """Run a tool in a project of its own that is removed again."""
    with tempfile.TemporaryDirectory(prefix="mutated-") as name:
        folder = Path(name)
        shutil.copy(MUTATED / "small.py", folder)
        shutil.copy(MUTATED / "conftest.py", folder)
        shutil.copy(MUTATED / "suite.py", folder / "test_small.py")
        start, used = time.perf_counter(), _processor()
        mutants, survivors = run(folder)
        wall, processor = time.perf_counter() - start, _processor() - used
    return Result(tool, _version(tool), mutants, survivors, round(wall, 3), round(processor, 3))


def table(results: list[Result]) -> Table:
    """A line a tool; `ratio` is its processor time a mutant over ours."""
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown.add_column("tool", no_wrap=True)
    for heading in ("mutants", "survive", "wall", "CPU", "a mutant", "ratio", "target", ""):
        shown.add_column(heading, justify="right", no_wrap=True)
    first = results[0]
    for one in results:
        target = TARGETS.get(one.tool)
        ratio = one.each / first.each
        shown.add_row(
            f"{one.tool} {one.version}",
            *(str(one.mutants), str(one.survivors)),
            *(f"{one.wall:.0f} s", f"{one.processor:.0f} s", f"{1000 * one.each:.1f} ms"),
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


def mutmut(folder: Path) -> tuple[int, int]:
    """`mutmut run` with one child at a time."""
    (folder / "setup.cfg").write_text(MUTMUT, encoding="utf-8")
    _run([sys.executable, "-m", "mutmut", "run", "--max-children", "1"], folder)
    said = _run([sys.executable, "-m", "mutmut", "results", "--all", "true"], folder)
    fates = [line.rpartition(": ")[2] for line in said.splitlines() if ": " in line]
    return len(fates), fates.count("survived")


def cosmic_ray(folder: Path) -> tuple[int, int]:
    """`cosmic-ray init` and `exec` with the local distributor: one mutant after the other."""
    (folder / "cosmic.toml").write_text(COSMIC_RAY, encoding="utf-8")
    tool = [sys.executable, "-m", "cosmic_ray.cli"]
    _run([*tool, "init", "cosmic.toml", "session.sqlite"], folder)
    _run([*tool, "exec", "cosmic.toml", "session.sqlite"], folder)
    said = _run([*tool, "dump", "session.sqlite"], folder)
    outcomes = [json.loads(line)[1]["test_outcome"] for line in said.splitlines()]
    return len(outcomes), outcomes.count("survived")


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{said}")
    return done.stdout


# ----- Ours -----


def ours(most: int, *, confined: bool) -> tuple[int, int]:
    """In a process of its own, as the others."""
    command = [sys.executable, "-m", "tests.benchmarks.mutation_tools", "--ours", str(most)]
    command += [] if confined else ["--unconfined"]
    fates: Mapping[str, int] = json.loads(_run(command, ROOT))
    return fates["mutants"], fates["survivors"]


def run_ours(most: int, *, confined: bool) -> dict[str, int]:
    """Put every patch into the engine, and run on it the tests that call what is patched."""
    text = (MUTATED / "small.py").read_text("utf-8")
    engine = Engine("small", Dialect("small"), MUTATED, {"small.py": text})
    suite = read_suite(MUTATED / "suite.py")
    clean = is_killed(engine, suite, list(suite.tests), confined=confined)
    assert not clean, "the suite fails on the engine as it is"
    called = coverage(engine, suite)
    mutants = survivors = 0
    for hunk in mutations(text):
        if mutants == most:
            break
        try:
            patched = apply_patch(parse_patch(hunk, path="mutant", line=1), engine.sources)
        except HunkError:  # it changes nothing, or not one place
            continue
        changed = functions_with_sites(engine.root, engine.sources, patched.sites)
        tests = [name for name, seen in called.items() if changed is None or changed & seen]
        mutants += 1
        mutant = replace(engine.patched(patched), base=engine.sources)
        survivors += not (tests and is_killed(mutant, suite, tests, confined=confined))
    return {"mutants": mutants, "survivors": survivors}


@dataclass(frozen=True)
class Suite:
    """A file of tests, functions `test_...(lib)`, as an exercise has them."""

    path: str
    text: str

    @property
    def tests(self) -> dict[str, Probe]:
        """Each as a probe."""
        return {
            name: self.probe([name]) for name in re.findall(r"^def (test_\w+)", self.text, re.M)
        }

    def probe(self, names: list[str]) -> Probe:
        """Some of them as one, which ends at the first that fails, as `pytest -x` does."""
        run = f"\n\ndef suite(lib):\n    for test in ({', '.join(names)},):\n        test(lib)\n"
        where = self.path, 1
        return Probe("suite", "", "test", (), "suite", self.text + run, *where, takes_lib=True)


def read_suite(path: Path) -> Suite:
    """The file's text."""
    return Suite(str(path), path.read_text("utf-8"))


def coverage(engine: Engine, suite: Suite) -> dict[str, frozenset[str]]:
    """The engine's functions that each test calls."""
    runs = run_isolated(msgspec.structs.replace(_job(engine, *suite.tests.values()), covered=True))
    named = zip(suite.tests, runs, strict=True)
    return {name: frozenset(run.called or ()) for name, run in named}


def is_killed(engine: Engine, suite: Suite, tests: list[str], *, confined: bool = True) -> bool:
    """Whether one of the tests fails."""
    job = _job(engine, suite.probe(tests))
    if not confined:
        limits = replace(job.limits, namespaces=False)
        job = msgspec.structs.replace(job, limits=limits)
    try:
        (run,) = run_isolated(job)
    except EngineDoesNotLoad:
        return True
    return run.failure is not None


def _job(engine: Engine, *probes: Probe) -> Job:
    source = engine.dialect, str(engine.root), dict(engine.sources), engine.sites
    items = tuple((index, None) for index in range(len(probes)))
    return Job(*source, probes, items, limits=Limits(cpu_seconds=1), base=dict(engine.base))


if __name__ == "__main__":
    sys.exit(main())
