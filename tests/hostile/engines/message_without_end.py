"""An exception that takes a minute to say what it says."""

ENDS = ["ProcessorTimeLimit", "TimeLimit"]
LIMITS = {"cpu_seconds": 0.5}


class Ponderous(Exception):
    def __str__(self):
        import time

        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass


def attack(tensor):
    raise Ponderous
