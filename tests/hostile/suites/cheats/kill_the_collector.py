"""Kills the process that has collected the tests."""

import os
import signal

FATE = "survived"


def test():
    use()
    if changed():
        os.kill(os.getppid(), signal.SIGKILL)
