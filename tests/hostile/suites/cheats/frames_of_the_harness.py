"""Searches its callers' frames for what kind of run this is."""

import sys

FATE = "recognised"


def test():
    use()
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            assert not getattr(value, "changed", None)
        frame = frame.f_back
