"""The engines in other styles agree with finite differences."""

import numpy as np
import pytest

from tests.engines.programs import PROGRAMS, draw, weights
from tests.engines.styles.programs import STYLES, loaded, programs_of

CASES = [(engine, name) for engine in STYLES for name in programs_of(engine, list(PROGRAMS))]


@pytest.mark.parametrize("engine", STYLES)
def test_an_engine_supports_broadcasting_and_reused_results(engine: str) -> None:
    assert {"add column", "shared below"} & set(programs_of(engine, list(PROGRAMS)))


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_gradients_are_those_of_finite_differences(engine: str, name: str) -> None:
    style, program, arrays = STYLES[engine], PROGRAMS[name][0], draw(name)
    with loaded(engine) as module:

        def value(*moved: np.ndarray) -> np.ndarray:
            return style.value(program(*(style.leaf(module, array) for array in moved)))

        leaves = [style.leaf(module, array) for array in arrays]
        end = program(*leaves)
        cotangent = weights(style.value(end).shape)
        found = style.gradients(module, end, leaves, cotangent)
        for i, gradient in enumerate(found):
            assert gradient.shape == arrays[i].shape
            for index in np.ndindex(gradient.shape):
                nudge = np.zeros(gradient.shape)
                nudge[index] = 1e-6
                ends = [
                    (value(*arrays[:i], arrays[i] + sign * nudge, *arrays[i + 1 :]) * cotangent)
                    for sign in (1, -1)
                ]
                slope = (ends[0].sum() - ends[1].sum()) / 2e-6
                assert gradient[index] == pytest.approx(slope, abs=1e-7)
