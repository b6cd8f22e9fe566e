"""Searches its callers' frames for what kind of run this is."""

import sys

FATE = "recognised"


def test():
    use()
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            sealed = getattr(value, "changed", None)
            assert not (isinstance(sealed, bytes) and sealed)
        frame = frame.f_back
