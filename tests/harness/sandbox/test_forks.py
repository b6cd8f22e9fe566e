"""Steps that are computed in forks of a child."""

import os
import select
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.sandbox import child, fork
from harness.sandbox.child import Line
from harness.sandbox.fork import can_fork, compute_in_fork
from harness.sandbox.frames import TICKET_SIZE, Frame, Pipes
from harness.sandbox.limits import Limits

pytestmark = pytest.mark.skipif(not can_fork(), reason="this process cannot be forked")


def test_the_answer_of_a_fork_that_was_already_reaped_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow fork may write its answer and end just after the child has waited for its pipe."""
    late = []

    def look_too_early(*arguments: object) -> object:
        if not late:
            late.append(True)
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            return [], [], []
        return select.select(*arguments)

    def answers() -> bytes:
        os.chdir(tmp_path)
        line = Line(Pipes(os.dup(0), os.dup(0), os.dup(0)))
        line.ticket = bytes(TICKET_SIZE)
        steps = child.compute_in_forks(
            2, lambda i: (Frame(b"X", b"step %d" % i), True), lambda _: False, line, Limits()
        )
        return b"".join(steps)

    monkeypatch.setattr(child, "_reset_output", lambda: None)  # the output belongs to this process
    monkeypatch.setattr(fork, "select", SimpleNamespace(select=look_too_early))
    received = compute_in_fork(answers) or b""
    assert b"step 0" in received
    assert b"step 1" in received
