"""Changes what Python lets one change."""

ENDS = [None]


def attack(tensor):
    import gc
    import random
    import sys
    import warnings

    random.seed(7)
    warnings.simplefilter("error")
    warnings.filters.append(("error", None, Warning, None, 1))
    gc.disable()
    sys.setswitchinterval(1.0)
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(200)
