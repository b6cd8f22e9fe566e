"""Callbacks of the garbage collector, and finalizers, that raise."""

ENDS = [None]


class Stubborn:
    def __init__(self):
        self.me = self

    def __del__(self):
        raise RuntimeError("not yet")


def raises(*_):
    raise RuntimeError("collected")


def attack(tensor):
    import gc

    Stubborn()
    gc.callbacks.append(raises)
    gc.collect()
    gc.set_threshold(1)
    gc.disable()
