"""Running collected tests in a fork of pytest's process, without reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol


def failing(items: Sequence[pytest.Item], order: Sequence[int], *, stop: bool) -> Iterator[int]:
    """Run the tests in this order; yield those that fail, only the first one with `stop`."""
    protocol = _Protocol()
    config = items[0].config
    config.pluginmanager.register(protocol, "breaklab-protocol")
    for position, index in enumerate(order):
        following = order[position + 1] if position + 1 < len(order) else None
        protocol.failed = False
        config.hook.pytest_runtest_protocol(
            item=items[index], nextitem=None if following is None else items[following]
        )
        if protocol.failed:
            yield index
            if stop:
                return


class _Protocol:
    """Runs a test without reporting it."""

    failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run setup, test and teardown, and note whether one of them fails."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self.failed = any(report.failed for report in reports)
        return True


def be_silent(config: pytest.Config) -> None:
    """Discard everything that is printed, and restart pytest's capturing."""
    config.option.tbstyle = "native"  # nobody reads it, and this is the fastest
    config.option.usepdb = False
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until it ends
    sys.stderr = sys.stdout
    if capture is not None:
        capture.start_global_capturing()
