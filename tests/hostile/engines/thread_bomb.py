"""Starts a hundred threads that stay."""

ENDS = ["SIGKILL", "RuntimeError"]
SHARED = [None, "RuntimeError"]
LIMITS = {"processes": 20}


def attack(tensor):
    import threading
    import time

    threading.stack_size(65536)
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    time.sleep(1)
