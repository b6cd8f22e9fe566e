"""Rounds floats towards minus infinity, and flushes small ones to zero."""

ENDS = [None]


def attack(tensor):
    import ctypes

    libc = ctypes.CDLL(None)
    libc.fesetround(0x400)
