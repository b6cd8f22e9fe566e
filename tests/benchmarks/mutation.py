"""`pytest --breaks-rules` beside two mutation testing tools, on one engine and its tests.

    pip install mutmut==3.8.1 cosmic-ray==8.7.0 numpy pytest   # in another environment
    python -m tests.benchmarks.mutation

Each tool mutates a copy of `tests/rules/engine.py`, an engine with five rules, and runs
`tests/rules/engine_suite.py` on each mutant. The processor time is that of the whole command; for
`--breaks-rules`, it includes finding the reasons of the survivors. Mutants that no test reaches
are not run, except by cosmic-ray, and are not counted. The other tools are best installed in an
environment of their own, with NumPy and pytest, whose `bin` is last in PATH. A tool that is not
found is skipped.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.engine import ROOT, children_seconds, machine

RULES = ROOT / "tests" / "rules"

MUTMUT = """
[tool.mutmut]
source_paths = ["engine.py"]
pytest_add_cli_args_test_selection = ["test_engine.py"]
"""

COSMIC_RAY = """
[cosmic-ray]
module-path = "engine.py"
timeout = 30.0
excluded-modules = []
test-command = "{python} -m pytest -x -q test_engine.py"
[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True)
class Tally:
    """The mutants that a tool ran, and those of them that the tests killed."""

    mutants: int
    killed: int


def main() -> int:
    """Measure, and print a table in Markdown."""
    argparse.ArgumentParser(
        description="Mutants of rules beside mutmut and cosmic-ray."
    ).parse_args()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}\n")
    print("| tool | mutants | killed | processor time | for each mutant |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (program, measure) in TOOLS.items():
        if not shutil.which(program):
            print(f"| {name} | not installed | | | |")
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            shutil.copy(RULES / "engine.py", place / "engine.py")
            shutil.copy(RULES / "engine_suite.py", place / "test_engine.py")
            before = children_seconds()
            tally = measure(place)
            used = children_seconds() - before
        each = f"{1000 * used / tally.mutants:.0f} ms"
        print(f"| {name} | {tally.mutants} | {tally.killed} | {used:.1f} s | {each} |", flush=True)
    return 0


def _breaks_rules(folder: Path) -> Tally:
    """Run the mutants of the engine's rules."""
    report = folder / "report.json"
    options = ("--breaks-rules", "engine.py", "--breaks-json", str(report))
    _run([sys.executable, "-m", "pytest", "-q", *options, "test_engine.py"], folder)
    fates = [entry["fate"] for entry in json.loads(report.read_text())["breaks"]]
    return Tally(len(fates) - fates.count("not-reached"), fates.count("killed"))


def _mutmut(folder: Path) -> Tally:
    """Run mutmut; it leaves out the functions that no test calls."""
    (folder / "pyproject.toml").write_text(MUTMUT)
    shown = _run(["mutmut", "run"], folder)
    counts = re.findall(r"(\d+)/\d+\s+🎉 (\d+) 🫥 (\d+)", shown)[-1]
    done, killed, without_tests = map(int, counts)
    return Tally(done - without_tests, killed)


def _cosmic_ray(folder: Path) -> Tally:
    """Run cosmic-ray; it also mutates the functions that no test calls."""
    program = shutil.which("cosmic-ray")
    assert program
    settings = COSMIC_RAY.format(python=Path(program).with_name("python"))
    (folder / "settings.toml").write_text(settings)
    _run(["cosmic-ray", "init", "settings.toml", "session.sqlite"], folder)
    _run(["cosmic-ray", "exec", "settings.toml", "session.sqlite"], folder)
    shown = _run(["cr-report", "session.sqlite"], folder)
    found = re.search(r"total jobs: (\d+).*surviving mutants: (\d+)", shown, re.DOTALL)
    assert found, shown
    mutants, survivors = map(int, found.groups())
    return Tally(mutants, mutants - survivors)


TOOLS: dict[str, tuple[str, Callable[[Path], Tally]]] = {
    "`pytest --breaks-rules`": ("pytest", _breaks_rules),
    "mutmut": ("mutmut", _mutmut),
    "cosmic-ray": ("cosmic-ray", _cosmic_ray),
}


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
