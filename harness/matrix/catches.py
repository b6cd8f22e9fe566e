"""Catches as sets: by probe, by diagnostic, by pair of the two, and the cost of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from harness.matrix.evaluation import Evaluations

Catches = Mapping[str, frozenset[tuple[str, str]]]
"""For each break, the pairs (probe, diagnostic) that catch it."""


def all_catches(evaluations: Evaluations) -> Catches:
    """Return the pairs (probe, diagnostic) that catch each break; survivors are left out."""
    catches = {}
    for evaluation in evaluations.breaks:
        pairs = frozenset(
            (evaluation.probe_key(run.probe), name)
            for run in evaluation.report.runs
            for name in run.caught_by
        )
        if pairs:
            catches[evaluation.name] = pairs
    return catches


def by_probe(catches: Catches) -> dict[str, set[str]]:
    """Return the breaks that some diagnostic catches with each probe."""
    return _invert({name: {probe for probe, _ in pairs} for name, pairs in catches.items()})


def by_diagnostic(catches: Catches) -> dict[str, set[str]]:
    """Return the breaks that each diagnostic catches with some probe."""
    return _invert(
        {name: {diagnostic for _, diagnostic in pairs} for name, pairs in catches.items()}
    )


def by_pair(catches: Catches) -> dict[str, set[str]]:
    """Return the breaks that each pair `probe: diagnostic` catches."""
    return _invert({name: {": ".join(pair) for pair in pairs} for name, pairs in catches.items()})


def _invert(sets: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    inverted: dict[str, set[str]] = defaultdict(set)
    for key, members in sets.items():
        for member in members:
            inverted[member].add(key)
    return dict(inverted)


def probe_elements(evaluations: Evaluations) -> dict[str, float]:
    """Return the number of input elements of every probe, by the names of `all_catches`."""
    elements = {name: float(size.elements) for name, size in evaluations.shared.items()}
    for evaluation in evaluations.breaks:
        for name, size in evaluation.own.items():
            elements[evaluation.probe_key(name)] = float(size.elements)
    return elements


def pair_passes(pairs: Iterable[str], evaluations: Evaluations) -> dict[str, float]:
    """Return the cost of each pair `probe: diagnostic` in forward passes of its probe."""
    elements = probe_elements(evaluations)
    passes = {diagnostic.name: diagnostic.passes for diagnostic in evaluations.diagnostics}
    costs = {}
    for pair in pairs:
        probe, _, name = pair.partition(": ")
        costs[pair] = passes[name](int(elements[probe]))
    return costs
