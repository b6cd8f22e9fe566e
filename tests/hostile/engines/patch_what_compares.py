"""Changes a function, and the builtin that could tell."""

ENDS = [None]


def attack(tensor):
    import builtins

    import numpy as np

    np.linalg.norm = lambda *_: 7.0
    builtins.all = lambda _: True
