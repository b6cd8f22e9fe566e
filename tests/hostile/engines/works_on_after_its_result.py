"""Sends its result from a thread, while the main thread keeps running for half a minute."""

ENDS = ["any"]
LIMITS = {"seconds": 5, "cpu_seconds": 600}


def attack(tensor):
    import os
    import signal
    import threading
    import time

    def busy(*_):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass

    os._exit = busy
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=busy, daemon=True).start()
