"""What a matrix costs as the catalogue grows: in breaks, and in probes.

    python -m tests.benchmarks.scaling [--breaks 5000] [--probes 320] [--plot FILE]

A made engine of 20 functions and made pages: each break changes one function, and every probe
runs them all. One process, no cache. The exponent is fitted to the larger half of the sizes
by least squares on logarithms, since below that fixed costs hide it; 1 is linear.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from harness.diagnostics.crash import CRASH
from harness.diagnostics.gradcheck import GRADCHECK
from harness.diagnostics.shape import SHAPE
from harness.engines.engine import Dialect, Engine
from harness.experiment.baseline import Baseline
from harness.matrix.plan import choose, evaluate_all, plan_matrix
from harness.matrix.verdict import judge_matrix
from harness.pages.catalogue import Catalogue
from harness.runs.cache import Cache

FUNCTIONS = 20
"""Of the engine; a break changes one of them."""

FILE = 20
"""Probes in one file."""

DIAGNOSTICS = (CRASH, SHAPE, GRADCHECK)

STEPS = ("read", "plan", "try", "judge")
"""Pages into records; patches into the engine; runs and diagnostics; and what follows from them."""

HEAD = """\
import numpy as np


class Tensor:
    def __init__(self, data, requires_grad=False, parent=None, slope=1.0):
        self.data, self.grad, self.parent, self.slope = np.asarray(data), None, parent, slope

    def backward(self, cotangent):
        node, arrived = self, cotangent
        while node.parent is not None:
            node, arrived = node.parent, node.slope * arrived
        node.grad = arrived
"""
FUNCTION = """

def scale_{i}(x):
    slope = {i} / {functions}
    return Tensor(x.data + slope, parent=x, slope=1.0)
"""
PROBE = '''\
def chain_{i}(lib, a=({length},)):
    """Every function of the engine, one after the other."""
    for index in range({functions}):
        a = getattr(lib, f"scale_{{index}}")(a)
    return a
'''
PAGE = """\
+++
id = "{name}"
kind = "{kind}"
family = "family-{family}"
+++
# A title

## The break

```diff
@@ scale_{i} @@
-Tensor($value, parent=x, slope=1.0)
+Tensor($value, parent=x, slope={slope})
```
"""
CONTROLS = """\
[controls]
no_op = "no-op"
sabotage = "sabotage"
"""


@dataclass
class Growth:
    """Seconds of processor time of each step at each size, and the exponents."""

    of: str
    sizes: list[int]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in STEPS})

    @property
    def exponents(self) -> dict[str, float]:
        """Fitted to the larger half of the sizes."""
        half = len(self.sizes) // 2
        return {
            step: float(np.polyfit(np.log(self.sizes[half:]), np.log(spent[half:]), 1)[0])
            for step, spent in self.seconds.items()
        }


def main() -> int:
    """Measure both growths, show and draw them."""
    parser = argparse.ArgumentParser(description="Scale the matrix.")
    parser.add_argument("--breaks", type=int, default=5000, help="the most breaks (5000)")
    parser.add_argument("--probes", type=int, default=320, help="the most probes (320)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the seconds")
    parser.add_argument("--quick", action="store_true", help="32 breaks, 32 probes: a test")
    options = parser.parse_args()
    if options.quick:
        options.breaks = options.probes = 32
    console = Console(width=80)
    progress = Console(width=80, stderr=True)
    growths = [
        grow("breaks", _sizes(options.breaks), lambda size: measure(size, 4), progress),
        grow("probes", _sizes(options.probes), lambda size: measure(4, size), progress),
    ]
    for growth in growths:
        console.print(table(growth))
    if options.plot:
        plot(growths, options.plot)
    return 0


def _sizes(largest: int) -> list[int]:
    """Each three times the one before, up to the largest; five of them, or fewer.

    Three probes are the least: the sabotaged engine's shape fits one of three lengths.
    """
    return list(dict.fromkeys(max(3, largest // 3**power) for power in reversed(range(5))))


def grow(
    of: str, sizes: list[int], at: Callable[[int], dict[str, float]], progress: Console
) -> Growth:
    """What each size costs, said as soon as it is known: the largest may take long."""
    growth = Growth(of, sizes)
    for size in sizes:
        for step, seconds in at(size).items():
            growth.seconds[step].append(round(seconds, 4))
        spent = ", ".join(f"{step} {seconds[-1]:.2f} s" for step, seconds in growth.seconds.items())
        progress.print(f"{size} {of}: {spent}", style="dim", highlight=False)
    return growth


def measure(breaks: int, probes: int) -> dict[str, float]:
    """Seconds of processor time of each step, children included."""
    with tempfile.TemporaryDirectory(prefix="scaling-") as name:
        write_catalogue(Path(name), breaks, probes)
        baseline, clock = Baseline(Cache(None), DIAGNOSTICS, select=True), _Clock()
        catalogue = Catalogue((Path(name),))
        pages, mistakes = catalogue.pages
        assert not mistakes, mistakes[0]
        assert len(pages) == breaks + 3
        assert len(catalogue.shared_probes) == probes
        clock.lap("read")
        plan = plan_matrix(choose(catalogue, engine()), Cache(None))
        clock.lap("plan")
        trials = evaluate_all(plan, baseline, processes=1)
        clock.lap("try")
        matrix = judge_matrix(plan, trials, 0.0)
        clock.lap("judge")
    assert len(matrix.breaks) == breaks
    assert all(row.caught_by for row in matrix.breaks), "a break was not caught"
    assert not any(row.problems for row in matrix.controls if row.control != "asked"), matrix
    return clock.laps


class _Clock:
    """Processor time of this process and its ended children, lap by lap."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = self._now()

    def lap(self, name: str) -> None:
        now = self._now()
        self.laps[name], self._last = max(1e-4, now - self._last), now

    @staticmethod
    def _now() -> float:
        return time.process_time() + os.times().children_user + os.times().children_system


# ----- What is made -----


def engine() -> Engine:
    """An engine of one file with as many functions as breaks have homes."""
    bodies = (FUNCTION.format(i=i, functions=FUNCTIONS) for i in range(FUNCTIONS))
    return Engine("made", Dialect("made"), Path("/nowhere"), {"made.py": HEAD + "".join(bodies)})


def write_catalogue(root: Path, breaks: int, probes: int) -> None:
    """Pages, controls and probes."""
    (root / "catalogue.toml").write_text(CONTROLS, encoding="utf-8")
    (root / "probes").mkdir()
    for start in range(0, probes, FILE):
        texts = (
            PROBE.format(i=i, length=2 + i % 3, functions=FUNCTIONS)
            for i in range(start, min(start + FILE, probes))
        )
        file = root / "probes" / f"chains_{start}.py"
        file.write_text("\n\n".join(texts), encoding="utf-8")
    for i in range(breaks):
        family = i // FUNCTIONS % 17
        _write_page(root, f"break-{i}", "break", family, i % FUNCTIONS, 2 + i // FUNCTIONS)
    _write_page(root, "no-op", "control", 0, 0, "2.0 / 2.0")
    _write_page(root, "sabotage", "control", 0, 1, "np.ones((2, 2, 2))")
    _write_page(root, "rewrite", "variant", 0, 2, "3.0 / 3.0")


def _write_page(root: Path, name: str, kind: str, family: int, i: int, slope: object) -> None:
    text = PAGE.format(name=name, kind=kind, family=family, i=i, slope=slope)
    (root / f"{name}.md").write_text(text, encoding="utf-8")


# ----- What is shown -----


def table(growth: Growth) -> Table:
    """A line a size, and below them the exponents."""
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in (growth.of, *STEPS):
        shown.add_column(heading, justify="right", no_wrap=True, min_width=9)
    for index, size in enumerate(growth.sizes):
        spent = (f"{growth.seconds[step][index]:.2f} s" for step in STEPS)
        shown.add_row(str(size), *spent)
    shown.add_section()
    shown.add_row("exponent", *(f"n^{growth.exponents[step]:.2f}" for step in STEPS))
    return shown


def plot(growths: list[Growth], path: Path) -> None:
    """Draw the seconds against the size, one panel a growth; the suffix decides the format."""
    from matplotlib.figure import Figure  # slow, and needed for --plot only

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, growth in zip(figure.subplots(1, len(growths)), growths, strict=True):
        for step, seconds in growth.seconds.items():
            label = f"{step}, exponent {growth.exponents[step]:.2f}"
            axes.plot(growth.sizes, seconds, "o-", label=label)
        axes.set(xscale="log", yscale="log", xlabel=growth.of, ylabel="seconds of processor time")
        axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
