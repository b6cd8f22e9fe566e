"""Benchmarks of minigrad against other engines and against NumPy by hand.

    python -m tests.benchmarks.engine [--only TEXT] [--quick] [--update]

Each row runs in a process of its own, which loads only the two libraries of that row and has one
thread. README.md says how a ratio is measured. A target that is missed is not an error: the status
is 1 only if a row fails for another reason than a missing library.
"""

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from minigrad import Tensor
from tests.benchmarks import contestants, problems

ROOT = Path(__file__).parents[2]

PAGE = ROOT / "docs" / "performance.md"
START = "<!-- the table of tests.benchmarks.engine -->\n"
"""Before the part of the page that `--update` writes."""

THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"),
)

ONE_THREAD = dict.fromkeys(THREADS, "1")
"""Set before a process imports anything; every build of NumPy reads one of them."""

KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
"""Makes glibc keep freed memory. Otherwise the layout of the heap decides whose arrays come from
the system again in each step: README.md says how much that is."""

STEPS = 3
"""Training steps after which two contestants must still agree."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
"""The largest difference between contestants; what is measured is below 1e-12 and 1e-4."""

Step = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """minigrad against a library on a problem; `target` is the largest ratio asked for, if any."""

    title: str
    problem: str
    contestant: str
    dtype: str
    against: str
    target: float | None = None
    measure: str = "time"

    @property
    def name(self) -> str:
        """What the command line calls it."""
        memory = " memory" if self.measure == "memory" else ""
        return f"{self.title} {self.dtype} {self.against}{memory}"


@dataclass(frozen=True)
class Result:
    """A row: measured, skipped, disagree or failed; `reason` says why it was not measured.

    `ours` and `theirs` are seconds or bytes, or seconds per node of the largest graph; `value` is
    their ratio, or the exponent of the growth.
    """

    outcome: str
    reason: str = ""
    value: float = 0.0
    spread: float = 0.0
    """Half the distance of the quartiles of the ratio."""
    ours: float = 0.0
    theirs: float = 0.0


large = partial(Row, "784-128-10", "large", "Classifier")
small = partial(Row, "16-32-10", "small", "Classifier")
convolution = partial(Row, "Conv2d 3x3", "convolution", "Convolution")
attention = partial(Row, "attention", "attention", "Attention")

ROWS = [
    large("float64", "numpy", 1.15),
    large("float32", "numpy", 1.15),
    large("float64", "numpy", 1.5, "memory"),
    large("float32", "numpy", 1.5, "memory"),
    small("float64", "numpy", 3.0),
    large("float64", "autograd", 1.0),
    small("float64", "autograd", 1 / 5),
    large("float64", "torch", 2.0),
    large("float32", "torch", 2.0),
    small("float64", "torch", 1.0),
    small("float32", "torch", 1.0),
    Row("moons 2-16-16-1", "moons", "Moons", "float64", "micrograd", 1 / 100),
    convolution("float64", "torch", 3.0),
    convolution("float32", "torch", 3.0),
    attention("float64", "torch", 3.0),
    attention("float32", "torch", 3.0),
    Row("chain of nodes", "chain", "", "float64", "itself", 1.1, "growth"),
    Row("wide graph", "wide", "", "float64", "itself", 1.1, "growth"),
]


def main() -> int:
    """Measure every row, and print the table."""
    parser = argparse.ArgumentParser(description="Benchmark minigrad.")
    parser.add_argument("--quick", action="store_true", help="one round: a test, not a measurement")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has TEXT in it")
    parser.add_argument("--row", choices=[row.name for row in ROWS], help=argparse.SUPPRESS)
    parser.add_argument("--update", action="store_true", help=f"write the table to {PAGE.name}")
    options = parser.parse_args()
    if options.update and (options.quick or options.only):
        parser.error("--update needs a measurement of all rows: leave out --quick and --only")
    if options.row:
        row = next(row for row in ROWS if row.name == options.row)
        print(json.dumps(asdict(measure(row, options.quick))))
        return 0
    rows = [row for row in ROWS if options.only in row.name]
    if not rows:
        parser.error(f"no row has {options.only!r} in its name: without --only, all are measured")
    if options.update and (missing := _missing_libraries()):
        parser.error(f"--update needs {', '.join(missing)}: pip install -e '.[bench]'")
    load = os.getloadavg()[1]
    results = {row: _in_a_process(row, options.quick) for row in rows}
    console = Console(width=80)
    console.print(f"{machine()}\n")
    if options.quick:
        console.print("one round each: whether it works, not how fast it is\n", style="bold")
    console.print(table(results))
    failed = any(result.outcome not in ("measured", "skipped") for result in results.values())
    if options.update and failed:
        console.print(f"{PAGE.name} is as it was: not all rows could be measured")
    elif options.update:
        from harness.core.files import write_file  # a process that measures loads two libraries
        from harness.report.documents import with_text

        text = PAGE.read_text(encoding="utf-8")
        write_file(PAGE, with_text(text, markdown(results, load), START))
    return int(failed)


def _missing_libraries() -> list[str]:
    libraries = dict.fromkeys(row.against for row in ROWS if row.measure != "growth")
    return [library for library in libraries if find_spec(library) is None]


def _in_a_process(row: Row, quick: bool) -> Result:
    command = [sys.executable, "-m", "tests.benchmarks.engine", "--row", row.name]
    child = subprocess.run(
        [*command, "--quick"] if quick else command,
        env=os.environ | ONE_THREAD | KEPT_MEMORY,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1:] or [f"status {child.returncode}"]
        return Result("failed", reason[0])
    return Result(**json.loads(child.stdout))


# ----- One row -----


def measure(row: Row, quick: bool = False) -> Result:
    """Measure a row, unless its library is missing or the contestants disagree."""
    if row.measure == "growth":
        largest, rounds = (10_000, 1) if quick else (1_000_000, 3)
        return _growth(GRAPHS[row.problem], largest, rounds)
    make = [partial(_made, library, row) for library in ("minigrad", row.against)]
    try:
        error = difference(*(maker() for maker in make))
    except ModuleNotFoundError as missing:
        return Result("skipped", f"{missing.name} is not installed")
    if not error <= TOLERANCE[row.dtype]:
        return Result("disagree", f"a relative difference of {error:.1e}")
    if row.measure == "memory":
        ours, theirs = (_peak(lambda maker=maker: maker().step) for maker in make)
        return Result("measured", value=ours / theirs, ours=ours, theirs=theirs)
    rounds, seconds, budget = (1, 0.001, 0.0) if quick else (101, 0.01, 20.0)
    return _time_ratio(*(maker().step for maker in make), rounds, seconds, budget)


def _made(library: str, row: Row) -> Any:
    problem = getattr(problems, row.problem)(row.dtype)
    return contestants.CONTESTANTS[library, row.contestant](problem)


def difference(ours: Any, theirs: Any) -> float:
    """The largest relative difference of losses and gradients over the first steps.

    Relative to the largest element of the array, or to a thousandth of that of all arrays: some
    gradients are 0 but for rounding, as that of the keys' bias, which softmax cancels. Raises
    AssertionError if a shape or a dtype differs.
    """
    worst = 0.0
    for _ in range(STEPS):
        results = [contestant.computed(contestant.step()) for contestant in (ours, theirs)]
        floor = max(np.abs(array).max() for array in results[1]) / 1000
        for a, b in zip(*results, strict=True):
            assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
            assert a.dtype == b.dtype, f"{a.dtype} is not {b.dtype}"
            worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), floor)))
    return worst


def _time_ratio(ours: Step, theirs: Step, rounds: int, seconds: float, budget: float) -> Result:
    """The median over `rounds` of the ratio of the times per step, in turns: AB, BA, AB, ...

    A turn takes `seconds`, or one step; after `budget` seconds no further round begins, but five
    are always run.
    """
    repeats = {step: _repeats(step, seconds) for step in (ours, theirs)}
    gc.collect()
    gc.freeze()  # what the imports left is not searched again and again; the collector stays on
    times: dict[Step, list[float]] = {ours: [], theirs: []}
    deadline = time.perf_counter() + budget
    for i in range(rounds):
        if i >= 5 and time.perf_counter() > deadline:
            break
        for step in (ours, theirs) if i % 2 else (theirs, ours):
            times[step].append(_time(step, repeats[step]) / repeats[step])
    ratios = [a / b for a, b in zip(times[ours], times[theirs], strict=True)]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    spread = (high - low) / 2
    return Result("measured", "", middle, spread, median(times[ours]), median(times[theirs]))


def _repeats(step: Step, seconds: float) -> int:
    """How many steps fill `seconds`, judged by the second one: the first warms up."""
    step()
    return max(1, round(seconds / _time(step, 1)))


def _time(step: Step, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        step()
    return time.process_time() - start


def _peak(make: Callable[[], Step]) -> int:
    """The peak of what Python and NumPy hold during a step, parameters included, in bytes."""
    make()()  # warm up what the library builds once
    gc.collect()
    tracemalloc.start()
    step = make()
    step()  # from the second step on, the gradients of the last one are there
    tracemalloc.reset_peak()
    step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


# ----- Growth -----

Graph = Callable[[int], tuple[Tensor, Tensor, float]]
"""Makes a graph of a number of nodes: a leaf, the last value, and the gradient of the leaf."""


def _chain(nodes: int) -> tuple[Tensor, Tensor, float]:
    """One op after the other."""
    leaf, one = Tensor(1.0, requires_grad=True), Tensor(1.0)
    value = leaf
    for _ in range(nodes - 1):
        value = value * one
    return leaf, value, 1.0


def _wide(nodes: int) -> tuple[Tensor, Tensor, float]:
    """Half of the nodes use the same leaf, the others add them up in pairs."""
    leaf, one = Tensor(1.0, requires_grad=True), Tensor(1.0)
    width = nodes // 2
    values = [leaf * one for _ in range(width)]
    while len(values) > 1:
        odd = [values.pop()] if len(values) % 2 else []
        values = [a + b for a, b in list(pairwise(values))[::2]] + odd
    return leaf, values[0], float(width)


GRAPHS: dict[str, Graph] = {"chain": _chain, "wide": _wide}


def _growth(graph: Graph, largest: int, rounds: int) -> Result:
    """The exponent p of seconds = c nodes^p, by least squares on logarithms. Linear is 1.

    At each size the fastest of several rounds: there is nothing to pair with, and what disturbs a
    round only makes it slower. Raises AssertionError if the gradient is wrong.
    """
    sizes = round(2 * np.log10(largest / 1000)) + 1
    nodes = [int(n) for n in np.geomspace(1000, largest, sizes).round()]
    seconds = [min(_backward(*graph(n)) for _ in range(rounds)) for n in nodes]
    exponent = np.polyfit(np.log(nodes), np.log(seconds), 1)[0]
    return Result("measured", value=float(exponent), ours=seconds[-1] / nodes[-1])


def _backward(leaf: Tensor, value: Tensor, expected: float) -> float:
    gc.collect()
    start = time.process_time()
    value.backward()
    elapsed = time.process_time() - start
    assert leaf.grad == expected, f"the gradient is {leaf.grad}, not {expected}"
    return elapsed


# ----- The table -----


def children_seconds() -> float:
    """Return the processor time of all child processes that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def machine() -> str:
    """The processor and the versions, which a reader needs to compare two tables."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = f"{names[0]}, {len(names)} cores" if names else platform.processor()
    versions = []
    for library in ("numpy", "torch", "autograd", "micrograd"):
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return f"{processor}; Python {platform.python_version()}, {', '.join(versions)}"


def table(results: dict[Row, Result]) -> Table:
    """One line per row, and below the table why rows have no ratio."""
    reasons = {f"{r.outcome}: {r.reason}": None for r in results.values() if r.reason}
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, caption_justify="left")
    shown.caption = "\n".join(["", *reasons]) if reasons else None
    for heading in ("problem", "against"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("minigrad", "other", "ratio", "target"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row, result in results.items():
        memory = ", memory" if row.measure == "memory" else ""
        problem = f"{row.title} {row.dtype.replace('float', 'f')}{memory}"
        target = "" if row.target is None else f"{row.target:.3g}"
        shown.add_row(problem, row.against, *_costs(row, result), target, _verdict(row, result))
    return shown


def markdown(results: dict[Row, Result], load: float) -> str:
    """The table of the page, with the day, the machine and the versions; without targets."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [f"Measured on {day}, {machine()}; load {load:.0f}.", ""]
    lines += ["| problem | against | minigrad | other | ratio |", "| --- | --- | --- | --- | --- |"]
    for row, result in results.items():
        memory = ", memory" if row.measure == "memory" else ""
        cells = (f"{row.title}, {row.dtype}{memory}", row.against, *_costs(row, result))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _costs(row: Row, result: Result) -> tuple[str, str, str]:
    if result.outcome != "measured":
        return "", "", ""
    if row.measure == "growth":
        return _duration(result.ours), "", f"n^{result.value:.2f}"
    if row.measure == "memory":
        ours, theirs = (f"{peak / 1e6:.2f} MB" for peak in (result.ours, result.theirs))
        return ours, theirs, f"{result.value:.2f}"
    ratio = f"{result.value:#.3g} ±{result.spread / result.value:.0%}"
    return _duration(result.ours), _duration(result.theirs), ratio


def _duration(seconds: float) -> str:
    units = (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")
    unit, name = next((pair for pair in units if seconds >= pair[0]), units[-1])
    return f"{seconds / unit:#.3g}".rstrip(".") + f" {name}"


def _verdict(row: Row, result: Result) -> str:
    if result.outcome != "measured":
        return result.outcome
    if row.target is None:
        return ""
    return "reached" if result.value <= row.target else "missed"


if __name__ == "__main__":
    sys.exit(main())
