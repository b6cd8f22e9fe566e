"""Benchmarks of minigrad against other engines and against NumPy by hand.

    python -m tests.benchmarks.engine [--json] [--plot FILE] [--quick]

`--help` lists two more options. Each row runs in a process of its own, with one thread; README.md
says how ratios are measured. A target that is missed is no error: the exit code is 1 only where a
row could not be measured for another reason than a missing library.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tests.benchmarks import report
from tests.benchmarks.rows import ROWS, Result, Row

ROOT = Path(__file__).parents[2]

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)

ONE_THREAD = dict.fromkeys(THREADS, "1")
"""Set before a row's process imports anything; one of them rules each build of NumPy."""

KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
"""Lets glibc keep what it is given back. Else it depends on how the heap happens to lie which
contestant's arrays come from the system anew in each step: README.md says how much that is."""


def main() -> int:
    """Measure every row, and show the results."""
    parser = argparse.ArgumentParser(description="Benchmark minigrad.")
    parser.add_argument("--json", action="store_true", help="print JSON; the table goes to stderr")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the cost per node")
    parser.add_argument("--quick", action="store_true", help="one round: a test, not a measurement")
    parser.add_argument("--default-malloc", action="store_true", help="do not keep freed memory")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has TEXT in it")
    options = parser.parse_args()
    environment = ONE_THREAD | ({} if options.default_malloc else KEPT_MEMORY)
    progress = Console(stderr=True)
    results = []
    for row in (row for row in ROWS if options.only in row.name):
        with progress.status(row.name):
            results.append(_run(row, options.quick, environment))
    machine = report.machine(environment)
    console = Console(width=80, stderr=options.json)
    versions = ", ".join(f"{name} {found}" for name, found in machine["libraries"].items())
    console.print(f"{machine['processor']}; Python {machine['python']}, {versions}\n")
    if options.quick:
        console.print("one round each: whether it works, not how fast it is\n", style="bold")
    console.print(report.table(results))
    if options.json:
        print(json.dumps({"machine": machine, "rows": results}, indent=1))
    if options.plot:
        report.plot(results, options.plot)
    return int(any(result["outcome"] not in ("measured", "skipped") for result in results))


def _run(row: Row, quick: bool, environment: dict[str, str]) -> report.Result:
    """Measure a row in a fresh process. What ends it early is the row's reason."""
    command = [sys.executable, "-m", "tests.benchmarks.rows", row.name]
    child = subprocess.run(
        [*command, "--quick"] if quick else command,
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        return asdict(Result(row, "failed", reason[0]))
    result: report.Result = json.loads(child.stdout)
    return result


if __name__ == "__main__":
    sys.exit(main())
