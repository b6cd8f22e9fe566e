"""Replaces functions of the operating system."""

ENDS = ["any"]


def attack(tensor):
    import os
    import time

    os.write = lambda *_: 0
    os.read = lambda *_: b""
    os.umask = os.chdir = os.scandir = lambda *_: None
    time.perf_counter = lambda: float("nan")
