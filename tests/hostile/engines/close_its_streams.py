"""Closes its input, output and error streams, which the next probe may use."""

ENDS = [None]


def attack(tensor):
    import os

    for stream in (0, 1, 2):
        os.close(stream)
