"""Sends the host every signal, except the one that asks a supervisor to end."""

ENDS = [None]
SHARED = None


def attack(tensor):
    import os
    import signal
    import time

    with open("/proc/1/cmdline") as first:
        if "harness.sandbox" not in first.read():
            raise RuntimeError("this process has no namespaces of its own: nothing is tried")
    for number in sorted(signal.valid_signals() - {signal.SIGTERM}):
        os.kill(1, number)
    time.sleep(0.2)
