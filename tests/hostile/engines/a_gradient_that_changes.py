"""A gradient that a thread frees and resizes while it is read."""

ENDS = ["any"]
LIMITS = {"seconds": 20, "cpu_seconds": 3}


def attack(tensor):
    import threading
    import time

    import numpy as np

    array = np.zeros(3)

    def change():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            array.resize(100_000, refcheck=False)
            array.resize(1, refcheck=False)
            array.dtype = "i1"
            array.dtype = "f8"

    threading.Thread(target=change, daemon=True).start()
    tensor.parent.__class__.grad = property(lambda _: array, lambda *_: None)
