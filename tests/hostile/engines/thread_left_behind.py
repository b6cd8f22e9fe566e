"""Leaves a thread that goes on to change numbers."""

ENDS = ["any"]


def attack(tensor):
    import threading
    import time

    import numpy as np

    def meddle():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            np.random.seed(7)
            np.asarray = None
            time.sleep(0.001)

    threading.Thread(target=meddle, daemon=True).start()
    time.sleep(0.01)
