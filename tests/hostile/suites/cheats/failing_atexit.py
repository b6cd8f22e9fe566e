"""Fails when the process ends."""

import atexit
import os

FATE = "survived"


def end():
    if changed():
        os._exit(1)


def test():
    use()
    atexit.register(end)
