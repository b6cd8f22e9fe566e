"""Fixtures for the tests of the matrix."""

import pytest

from harness.matrix import evaluate


@pytest.fixture(autouse=True)
def _one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every page in this process, and keep its host for the next test.

    To start other processes and their hosts takes longer than a whole matrix of the tiny engine.
    """
    monkeypatch.setattr(evaluate, "available_cores", lambda: 1)
    monkeypatch.setattr(evaluate, "close_hosts", lambda: None)
