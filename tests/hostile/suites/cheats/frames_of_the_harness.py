"""Looks in its callers' frames for what the run is about."""

import sys

FATE = "recognised"


def test():
    use()
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            assert not getattr(value, "changed", None)
        frame = frame.f_back
