"""Prints for a minute, to both streams."""

ENDS = ["ProcessorTimeLimit", "TimeLimit"]
LIMITS = {"cpu_seconds": 0.5, "seconds": 5}


def attack(tensor):
    import os
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        os.write(1, b"y" * 65536)
        os.write(2, b"n" * 65536)
