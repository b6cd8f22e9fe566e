"""Ignores and blocks every signal that it can, and works for ever."""

ENDS = ["TimeLimit"]
LIMITS = {"seconds": 5, "cpu_seconds": 0.5}


def attack(tensor):
    import signal
    import time

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if time.process_time() > 1.5:  # more than its limit allows
            time.sleep(0.1)
