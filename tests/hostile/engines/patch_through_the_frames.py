"""Changes the variables of its callers, through their frames."""

ENDS = ["any"]


def attack(tensor):
    import ctypes
    import sys

    frame = sys._getframe()
    while frame := frame.f_back:
        for name in list(frame.f_locals):
            frame.f_locals[name] = None
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 1)
        frame.f_globals.clear()
