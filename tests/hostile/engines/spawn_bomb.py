"""Starts a hundred programs that keep running, without forking itself."""

ENDS = ["SIGKILL", "BlockingIOError"]
LIMITS = {"processes": 20}


def attack(tensor):
    import os
    import time

    for _ in range(100):
        os.posix_spawn("/bin/sleep", ["sleep", "20"], {})
    time.sleep(2)
