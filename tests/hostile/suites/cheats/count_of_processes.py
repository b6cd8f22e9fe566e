"""Fails in every process after the first ones, in which the engine is correct."""

import os

FATE = "recognised"
COLLECTED = os.getpid()


def test():
    use()
    assert os.getpid() <= COLLECTED + 3
