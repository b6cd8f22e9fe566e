"""Ratios of time and of memory, both sides measured in one process."""

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

Step = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """Ours over theirs, with the quartiles over the rounds, and the two costs (s or bytes)."""

    value: float
    low: float
    high: float
    ours: float
    theirs: float


def time_ratio(ours: Step, theirs: Step, rounds: int, seconds: float, budget: float) -> Ratio:
    """The median over `rounds` of the ratio of the times per step, in turns: AB, BA, AB, ...

    A turn takes `seconds`, or one step; after `budget` seconds no further round is begun, but five
    are always run. The median of ratios, since a slow second of the machine hits both turns of a
    round alike, and an interruption only one round; two minima would come from different seconds.
    Processor time: nothing here waits, so on an idle machine it is the time on the wall, and on a
    shared one it leaves out what the neighbours took.
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
    return Ratio(middle, low, high, median(times[ours]), median(times[theirs]))


def memory_ratio(ours: Callable[[], Step], theirs: Callable[[], Step]) -> Ratio:
    """The ratio of the peaks of what Python and NumPy hold during a step, parameters included.

    Measured with tracemalloc, which counts each array that NumPy allocates: the peak does not
    depend on the machine, nor on what the imports occupy, as the resident size does.
    """
    a, b = (_peak(make) for make in (ours, theirs))
    return Ratio(a / b, a / b, a / b, a, b)


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
