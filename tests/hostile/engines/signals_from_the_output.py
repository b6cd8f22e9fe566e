"""Makes the kernel signal the process that forked it whenever printed output is read."""

ENDS = ["any"]


def attack(tensor):
    import fcntl
    import os
    import signal

    fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(1, 10, signal.SIGXCPU)  # F_SETSIG
    fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC)
