"""Has every call traced by a function that takes a minute."""

ENDS = ["ProcessorTimeLimit", "TimeLimit"]
LIMITS = {"cpu_seconds": 0.5}


def attack(tensor):
    import sys
    import time

    def slow(*_):
        sys.settrace(None)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass

    sys.settrace(slow)
