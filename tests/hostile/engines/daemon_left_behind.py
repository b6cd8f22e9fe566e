"""Leaves a daemon: forked twice, in a session of its own, deaf to requests to end."""

ENDS = [None]


def attack(tensor):
    import os
    import signal
    import time

    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.closerange(0, 256)
            time.sleep(20)
        os._exit(0)
    os.wait()
