"""Reads where there is no memory."""

ENDS = ["SIGSEGV"]


def attack(tensor):
    import ctypes

    ctypes.string_at(0)
