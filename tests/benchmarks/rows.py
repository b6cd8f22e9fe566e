"""The rows of the table, and how one of them is measured.

`engine` runs this module once for each row, with the row's name: in a process of its own, which has
loaded only the two libraries of that row, and whose environment allows one thread.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks import graphs, problems, timing


@dataclass(frozen=True)
class Row:
    """minigrad against a library on a problem; `target` is the largest ratio asked for, if any."""

    problem: str
    contestant: str
    shown: str
    dtype: str
    against: str
    target: float | None = None
    measure: str = "time"

    @property
    def name(self) -> str:
        """What the command line calls it."""
        memory = " memory" if self.measure == "memory" else ""
        return f"{self.shown} {self.dtype} {self.against}{memory}"


@dataclass(frozen=True)
class Result:
    """What became of a row: measured, skipped, disagree, failed; `reason` says why not measured."""

    row: Row
    outcome: str
    reason: str = ""
    difference: float | None = None
    ratio: timing.Ratio | None = None
    growth: graphs.Growth | None = None


large = partial(Row, "large", "Classifier", "784-128-10")
small = partial(Row, "small", "Classifier", "16-32-10")
large_plain = partial(Row, "large", "PlainClassifier", "784-128-10 ops")
small_plain = partial(Row, "small", "PlainClassifier", "16-32-10 ops")
convolution = partial(Row, "convolution", "Convolution", "Conv2d 3x3")
attention = partial(Row, "attention", "Attention", "attention")

ROWS = [
    large("float64", "numpy", 1.15),
    large("float32", "numpy", 1.15),
    large("float64", "numpy", 1.5, "memory"),
    large("float32", "numpy", 1.5, "memory"),
    small("float64", "numpy", 3.0),
    large_plain("float64", "numpy", 1.15),
    small_plain("float64", "numpy", 2.8),
    large("float64", "autograd", 1.0),
    small("float64", "autograd", 1 / 5),
    large("float64", "torch", 2.0),
    large("float32", "torch", 2.0),
    small("float64", "torch", 1.0),
    small("float32", "torch", 1.0),
    large("float64", "mygrad"),
    small("float64", "mygrad"),
    Row("moons", "Moons", "moons 2-16-16-1", "float64", "micrograd", 1 / 100),
    convolution("float64", "torch", 3.0),
    convolution("float32", "torch", 3.0),
    attention("float64", "torch", 3.0),
    attention("float32", "torch", 3.0),
    Row("chain", "", "chain of nodes", "float64", "itself", 1.1, "growth"),
    Row("wide", "", "wide graph", "float64", "itself", 1.1, "growth"),
]

STEPS = 3
"""Training steps after which two contestants must still agree."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
"""The largest difference between contestants; what is measured is below 1e-12 and 1e-4."""


def measure(row: Row, quick: bool = False) -> Result:
    """Measure a row, unless its library is missing or the contestants disagree."""
    if row.measure == "growth":
        graph = getattr(graphs, row.problem)
        largest, rounds = (10_000, 1) if quick else (1_000_000, 3)
        return Result(row, "measured", growth=graphs.growth(graph, largest, rounds))
    try:
        modules = [
            import_module(f"tests.benchmarks.contestants.in_{library}")
            for library in ("minigrad", row.against)
        ]
    except ModuleNotFoundError as error:
        return Result(row, "skipped", f"{error.name} is not installed")
    make = [partial(_made, getattr(module, row.contestant), row) for module in modules]
    difference = _difference(*(maker() for maker in make))
    if not difference <= TOLERANCE[row.dtype]:
        return Result(row, "disagree", f"a relative difference of {difference:.1e}", difference)
    if row.measure == "memory":
        ratio = timing.memory_ratio(*(lambda maker=maker: maker().step for maker in make))
    else:
        rounds, seconds, budget = (1, 0.001, 0.0) if quick else (101, 0.01, 20.0)
        ours, theirs = (maker().step for maker in make)
        ratio = timing.time_ratio(ours, theirs, rounds, seconds, budget)
    return Result(row, "measured", difference=difference, ratio=ratio)


def _made(contestant: Any, row: Row) -> Any:
    return contestant(getattr(problems, row.problem)(row.dtype))


def _difference(ours: Any, theirs: Any) -> float:
    """The largest relative difference of losses and gradients over the first steps.

    Relative to the largest element of the array, or to a thousandth of that of all arrays: some
    gradients are 0 but for rounding, as that of the keys' bias, which softmax cancels. Raises
    AssertionError where a shape or a dtype differs.
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


def main() -> None:
    """Measure the row that the command line names, and print it as JSON."""
    parser = argparse.ArgumentParser(description="Measure one row of the benchmark.")
    parser.add_argument("row", choices=[row.name for row in ROWS])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    row = next(row for row in ROWS if row.name == options.row)
    print(json.dumps(asdict(measure(row, options.quick))))


if __name__ == "__main__":
    main()
