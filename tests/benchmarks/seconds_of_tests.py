"""A pytest plugin that writes the processor time of each test, with its fixtures, to a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

_SECONDS: dict[str, float] = {}


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    start = time.process_time()
    yield
    _SECONDS[item.nodeid] = time.process_time() - start


def pytest_sessionfinish() -> None:
    Path(os.environ["SECONDS_OF_TESTS"]).write_text(json.dumps(_SECONDS), encoding="utf-8")
