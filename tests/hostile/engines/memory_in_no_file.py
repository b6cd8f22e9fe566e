"""Holds memory in files that are in no folder, which no limit counts."""

ENDS = ["PermissionError"]


def attack(tensor):
    import os

    held = [os.memfd_create(f"held{number}") for number in range(3)]
    for descriptor in held:
        os.ftruncate(descriptor, 8 << 20)
        os.write(descriptor, bytes(8 << 20))
