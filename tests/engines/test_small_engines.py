"""The small engines, each of a different design, agree with finite differences."""

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from tests.engines.programs import MISSING, Arrays, draw, gradients, programs_of, value, weights

CASES = [(engine, name) for engine in MISSING for name in programs_of(engine)]


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_gradients_are_those_of_finite_differences(engine: str, name: str) -> None:
    module = import_module(f"tests.engines.{engine}")
    arrays = draw(name)
    found = gradients(module, name)
    assert len(found) == len(arrays)
    for i, gradient in enumerate(found):
        assert gradient.shape == arrays[i].shape
        np.testing.assert_allclose(gradient, _differences(module, name, arrays, i), atol=1e-7)


def _differences(module: ModuleType, name: str, arrays: Arrays, which: int) -> np.ndarray:
    """The central differences of the weighted output, element by element."""
    step = 1e-6

    def weighted(moved: np.ndarray) -> float:
        output = value(module, name, (*arrays[:which], moved, *arrays[which + 1 :]))
        return float((output * weights(output.shape)).sum())

    gradient = np.zeros(arrays[which].shape)
    for index in np.ndindex(gradient.shape):
        nudge = np.zeros(gradient.shape)
        nudge[index] = step
        ahead, behind = (weighted(arrays[which] + sign * nudge) for sign in (1, -1))
        gradient[index] = (ahead - behind) / (2 * step)
    return gradient
