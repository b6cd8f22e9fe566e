"""Leaves a process behind that holds a deleted file as large as the scratch folder."""

ENDS = [None, "OSError"]
LIMITS = {"file_size": 16 * 1024 * 1024}


def attack(tensor):
    import os
    import time

    held = os.open("held", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(held, 0, 15 << 20)
    os.unlink("held")
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)
