"""Leaves a process behind that creates files in the scratch folder as long as it can."""

ENDS = [None]


def attack(tensor):
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for count in range(10):
                try:
                    open(f"{count}", "w").close()
                except OSError:
                    pass
