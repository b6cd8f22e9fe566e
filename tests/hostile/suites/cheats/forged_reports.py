"""Writes the report of a failure to every pipe."""

import os

from harness.grade.protocol import Ended, encode_event

FATE = "recognised"


def test():
    use()
    if changed():
        for descriptor in range(3, 50):
            try:
                os.write(descriptor, encode_event(Ended(0, "failed", 0.1)))
            except OSError:
                pass
