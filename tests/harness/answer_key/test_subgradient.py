"""Kinks: another valid subgradient is not a bug, anything else is."""

from typing import Any

import numpy as np
import pytest

import minigrad
from harness.answer_key.subgradient import NEARBY, is_subgradient, sample_nearby
from harness.core.run import Measured, Run, pack
from harness.engines.engine import Dialect
from harness.engines.library import Library
from harness.pages.probe import read_probes
from harness.runs.trial import Trial, observe

PROBES = {
    "abs": "def p(a=[-1.0, 0.0, 2.0]):\n    'doc'\n    return a.abs()\n",
    "max": "def p(a=[2.0, 2.0, 1.0]):\n    'doc'\n    return a.max()\n",
    "two": "def p(a=[[2.0, 2.0], [3.0, 3.0]]):\n    'doc'\n    return a.max(1)\n",
    "smooth": "def p(a=[1.0, 2.0]):\n    'doc'\n    return a * a\n",
}


def key_of(name: str) -> Run:
    (probe,) = read_probes(PROBES[name], "p.py")
    trial = Trial(Library(Dialect(module="minigrad"), minigrad), probe)
    run = observe(trial, "uniform")
    measured = {NEARBY: sample_nearby(trial, run)}
    return Run("p", "uniform", leaves=run.leaves, gradients=run.gradients, measured=measured)


@pytest.mark.parametrize(
    ("name", "gradient", "valid"),
    [
        ("abs", [-1.0, 0.0, 1.0], True),
        ("abs", [-1.0, 1.0, 1.0], True),
        ("abs", [-1.0, -0.3, 1.0], True),
        ("abs", [-1.0, 1.1, 1.0], False),
        ("abs", [1.0, 0.0, 1.0], False),
        ("max", [1.0, 0.0, 0.0], True),
        ("max", [0.3, 0.7, 0.0], True),
        ("max", [1.0, 1.0, 0.0], False),
        ("max", [0.5, 0.5, 0.1], False),
        ("max", [0.0, 0.0, 0.0], False),
        ("two", [[1.0, 0.0], [0.0, 1.0]], True),
        ("two", [[1.0, 0.0], [0.0, 0.9]], False),
        ("smooth", [2.0, 4.0], False),
        ("abs", [[-1.0, 0.0, 1.0]], False),
    ],
)
def test_only_a_choice_among_the_derivatives_nearby_is_valid(
    name: str, gradient: Any, valid: bool
) -> None:
    assert is_subgradient({"a": pack(gradient)}, key_of(name)) == valid


def test_no_gradient_means_zeros() -> None:
    assert not is_subgradient({"a": None}, key_of("max"))
    signs = np.vstack([np.full((12, 2), -1.0), np.full((12, 2), 1.0)])
    both = Measured({"a": pack(signs)})
    assert is_subgradient({"a": None}, Run("p", None, measured={NEARBY: both}))
