"""A kill matrix that gets a signal on its way: once for each here, many times by `kill_trials`.

The default tier has the two signals between which the rest lie: one to the whole group, after which
the matrix tidies up, and one to its first process alone that cannot be caught.
"""

import fcntl
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.kill_trials import STATUS, trial, two_at_once, until_it_has_stored

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

ATTEMPTS = 3
"""On a busy machine a matrix may be done before the signal arrives."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of two matrices at once, computed by the first process of this run that asks."""
    file = Path(os.environ["BREAKLAB_TEST_HOME"], "two-at-once.json")
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            shown, _ = two_at_once(tmp_path_factory.mktemp("two"))
            file.write_text(json.dumps(shown), encoding="utf-8")
    shown = json.loads(file.read_text(encoding="utf-8"))
    return dict(shown)


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGINT, True),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
        (signal.SIGKILL, False),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.slow),
    ],
)
def test_a_matrix_that_receives_a_signal_leaves_nothing_and_can_resume(
    number: signal.Signals, group: bool, reference: dict[str, Any], tmp_path: Path
) -> None:
    statuses = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        result = trial(folder, number, until_it_has_stored, reference, group=group)
        assert result.wrong == []
        statuses.append(result.status)
        if result.status == STATUS[number]:
            return
    pytest.fail(f"it ended with {statuses}, and not once with {STATUS[number]}")
