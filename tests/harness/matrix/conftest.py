"""Fixtures for the tests of the matrix."""

import pytest


@pytest.fixture(autouse=True)
def _one_host(one_host: None) -> None:
    """No test needs more than one host, except the one that is about several processes."""
