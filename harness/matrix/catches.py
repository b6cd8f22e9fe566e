"""Catches as sets: the breaks by probe, by diagnostic, or by pair of the two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from harness.matrix.evaluation import Evaluations

Pair = tuple[str, str]
"""A probe's unique name and a diagnostic."""

Catches = Mapping[str, frozenset[Pair]]
"""For each break, the pairs that catch it."""


def all_catches(evaluations: Evaluations) -> Catches:
    """Return the pairs that catch each break; survivors are left out."""
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


def breaks_by(part: Callable[[Pair], str], catches: Catches) -> dict[str, set[str]]:
    """Return the breaks that are caught, by some part of the pairs that catch them."""
    breaks: dict[str, set[str]] = defaultdict(set)
    for name, pairs in catches.items():
        for pair in pairs:
            breaks[part(pair)].add(name)
    return dict(breaks)
