"""Makes the pipe for what is printed non-blocking, for everyone who shares it."""

ENDS = [None]


def attack(tensor):
    import os

    os.set_blocking(0, False)
    os.set_blocking(1, False)
    os.set_blocking(2, False)
