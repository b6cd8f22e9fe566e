"""The engines of learners agree with finite differences, and with each of their bugs do not."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.engines.learners.bugs import (
    BUGS,
    HERE,
    LEARNERS,
    Bug,
    leaves_of,
    module_at,
    programs_of,
    write,
)
from tests.engines.programs import PROGRAMS, draw, weights

CASES = [(engine, name) for engine in LEARNERS for name in programs_of(engine, list(PROGRAMS))]
BUGGED = [
    pytest.param(engine, bug, id=f"{engine}-{bug.name}") for engine in BUGS for bug in BUGS[engine]
]


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_gradients_are_those_of_finite_differences(engine: str, name: str) -> None:
    error = _error(module_at(HERE / f"{engine}.py"), engine, name)
    assert error < 1e-7


@pytest.mark.parametrize(("engine", "bug"), BUGGED)
def test_a_bug_gives_a_wrong_gradient(engine: str, bug: Bug, tmp_path: Path) -> None:
    module = module_at(write(tmp_path, engine, bug))
    assert any(_error(module, engine, name) > 1e-3 for name in programs_of(engine, list(PROGRAMS)))


def test_every_engine_has_five_bugs() -> None:
    assert {engine: len({bug.name for bug in bugs}) for engine, bugs in BUGS.items()} == (
        dict.fromkeys(LEARNERS, 5)
    )


def _error(module: ModuleType, engine: str, name: str) -> float:
    """The largest difference from central differences; infinite if there is no gradient."""
    learner, program = LEARNERS[engine], PROGRAMS[name][0]
    arrays = leaves_of(engine, draw(name))

    def value(*moved: np.ndarray) -> np.ndarray:
        return np.asarray(learner.value(module, program(*(learner.leaf(module, x) for x in moved))))

    cotangent = weights(value(*arrays).shape)
    leaves = [learner.leaf(module, x) for x in arrays]
    try:
        learner.backward(module, program(*leaves), cotangent)
        gradients = [np.asarray(learner.gradient(leaf), dtype=float) for leaf in leaves]
    except Exception:
        return float("inf")
    error = 0.0
    for i, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        if gradient.shape != np.shape(array):
            return float("inf")
        for index in np.ndindex(gradient.shape):
            nudge = np.zeros(gradient.shape)
            nudge[index] = 1e-6
            ahead, behind = (
                (value(*arrays[:i], array + sign * nudge, *arrays[i + 1 :]) * cotangent).sum()
                for sign in (1, -1)
            )
            error = max(error, abs(gradient[index] - (ahead - behind) / 2e-6))
    return error
