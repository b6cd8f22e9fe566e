"""Changes the value of a small integer, which Python shares between all uses."""

ENDS = ["any"]
LIMITS = {"cpu_seconds": 5}


def attack(tensor):
    import ctypes

    ctypes.memset(id(7) + 24, 8, 1)
    ctypes.memset(id(0.0) + 16, 8, 1)
    ctypes.memset(id("weighted") + 56, 65, 1)
