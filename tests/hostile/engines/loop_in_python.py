"""A loop that does not end."""

ENDS = ["ProcessorTimeLimit", "TimeLimit"]
LIMITS = {"cpu_seconds": 0.5}


def attack(tensor):
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
