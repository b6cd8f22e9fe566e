"""A kill matrix that receives a signal: once per signal here, many times in `kill_trials`."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.kill_trials import STATUS, trial, two_at_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], float]:
    return two_at_once(tmp_path_factory.mktemp("two"))


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        (signal.SIGKILL, False),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.slow),
    ],
)
def test_a_matrix_that_receives_a_signal_leaves_nothing_and_can_resume(
    number: signal.Signals, group: bool, reference: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
    shown, seconds = reference
    result = trial(tmp_path, number, 0.15 * seconds, shown, group=group)
    assert result.wrong == []
    # Ended by it, also where it came before the command line could take it; and not done before.
    assert result.status in (STATUS[number], -number)
