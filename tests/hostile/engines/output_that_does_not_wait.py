"""Makes the pipe for printed output non-blocking, for every process that shares it."""

ENDS = [None]


def attack(tensor):
    import os

    os.set_blocking(0, False)
    os.set_blocking(1, False)
    os.set_blocking(2, False)
