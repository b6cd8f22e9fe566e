"""Has every call traced and profiled, by functions that raise."""

ENDS = ["any"]


def raises(*_):
    raise RuntimeError("traced")


def attack(tensor):
    import sys
    import threading

    threading.settrace(raises)
    sys.setprofile(raises)
    sys.settrace(raises)
