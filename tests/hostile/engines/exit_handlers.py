"""Handlers for the end of the process that hang, and that write."""

ENDS = [None]


def attack(tensor):
    import atexit
    import threading
    import time

    atexit.register(time.sleep, 20)
    atexit.register(open, "late", "w")
    threading._register_atexit(time.sleep, 20)
