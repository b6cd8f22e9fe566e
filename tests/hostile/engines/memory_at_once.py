"""Asks for twice the memory that it may have, in one array."""

ENDS = ["MemoryError"]
LIMITS = {"memory": 512 * 1024 * 1024}


def attack(tensor):
    import numpy as np

    np.ones(2 * 512 * 1024 * 1024 // 8)
