"""Sends the host every signal, except the one that asks a supervisor to end."""

ENDS = [None]
SHARED = None


def attack(tensor):
    import os
    import signal
    import time

    require_namespaces()
    for number in sorted(signal.valid_signals() - {signal.SIGTERM}):
        os.kill(1, number)
    time.sleep(0.2)
