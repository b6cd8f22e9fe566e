"""Asks for twice the memory that it may have, a little at a time, and keeps it."""

ENDS = ["MemoryError"]
LIMITS = {"memory": 512 * 1024 * 1024}


def attack(tensor):
    kept = []
    for _ in range(2 * 512):
        kept.append(bytearray(1024 * 1024))
