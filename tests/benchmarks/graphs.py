"""What backward costs per node, on graphs from a thousand nodes to a million."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from minigrad import Tensor

Graph = Callable[[int], tuple[Tensor, Tensor, float]]
"""Makes a graph of a number of nodes: a leaf, the last value, and the gradient of the leaf."""


@dataclass(frozen=True)
class Growth:
    """Seconds of one backward at each number of nodes, and the exponent of the fitted power."""

    nodes: list[int]
    seconds: list[float]
    exponent: float


def chain(nodes: int) -> tuple[Tensor, Tensor, float]:
    """One op after the other."""
    leaf, one = Tensor(1.0, requires_grad=True), Tensor(1.0)
    value = leaf
    for _ in range(nodes - 1):
        value = value * one
    return leaf, value, 1.0


def wide(nodes: int) -> tuple[Tensor, Tensor, float]:
    """Half of the nodes use the same leaf, the others add them up in pairs."""
    leaf, one = Tensor(1.0, requires_grad=True), Tensor(1.0)
    width = nodes // 2
    values = [leaf * one for _ in range(width)]
    while len(values) > 1:
        odd = [values.pop()] if len(values) % 2 else []
        values = [a + b for a, b in list(pairwise(values))[::2]] + odd
    return leaf, values[0], float(width)


def growth(graph: Graph, largest: int, rounds: int) -> Growth:
    """The exponent p of seconds = c nodes^p, by least squares on logarithms. Linear is 1.

    At each size the fastest of several rounds: there is nothing to pair with, and what disturbs a
    round only makes it slower. Processor time. Raises AssertionError where the gradient is wrong.
    """
    steps = round(2 * np.log10(largest / 1000)) + 1
    nodes = [int(n) for n in np.geomspace(1000, largest, steps).round()]
    seconds = [np.inf] * len(nodes)
    for _ in range(rounds):
        for i, n in enumerate(nodes):
            seconds[i] = min(seconds[i], _backward(*graph(n)))
    exponent = np.polyfit(np.log(nodes), np.log(seconds), 1)[0]
    return Growth(nodes, seconds, float(exponent))


def _backward(leaf: Tensor, value: Tensor, expected: float) -> float:
    gc.collect()
    start = time.process_time()
    value.backward()
    elapsed = time.process_time() - start
    assert leaf.grad == expected, f"the gradient is {leaf.grad}, not {expected}"
    return elapsed
