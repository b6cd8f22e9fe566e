"""Digests of numbers: the same for the same numbers, however they are stored."""

import numpy as np
import pytest

from harness.runs.digests import digest_of


@pytest.mark.parametrize("seed", range(5))
def test_the_layout_of_a_small_array_in_memory_does_not_matter(seed: int) -> None:
    array = np.random.default_rng(seed).normal(size=(7, 9, 2)).transpose(2, 0, 1)
    assert not array.flags.c_contiguous
    assert digest_of(array) == digest_of(np.ascontiguousarray(array))


@pytest.mark.parametrize("shape", [(), (3,), (3, 0), (4, 3), (40, 50)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64", "bool"])
def test_a_digest_is_the_same_every_time(shape: tuple[int, ...], dtype: str) -> None:
    array = np.asarray(3 * np.random.default_rng(0).normal(size=shape), dtype)
    first = digest_of(array)
    assert digest_of(array.copy()) == first
    if array.size:
        other = array.copy()
        other.flat[-1] = not other.flat[-1]
        assert digest_of(other) != first


def test_the_places_of_infinite_numbers_count() -> None:
    first, second = np.array([np.inf, 1.0, 0.0]), np.array([0.0, 1.0, np.inf])
    assert digest_of(first).checksum != digest_of(second).checksum
