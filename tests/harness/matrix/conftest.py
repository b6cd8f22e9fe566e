"""Fixtures for the tests of the matrix."""

import pytest


@pytest.fixture(autouse=True)
def _one_host(one_host: None) -> None:
    """Only the test of several processes needs more than one host."""
