"""Fixtures for the tests of the harness."""

import pytest

from harness.runs import oracles


@pytest.fixture
def without_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch and HIPS autograd were not installed.

    Each new probe costs a start of PyTorch, some seconds of processor time: for tests that write
    probes of their own, and are not about oracles.
    """
    monkeypatch.setattr(oracles, "find_spec", lambda _: None)
