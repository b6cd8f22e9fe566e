"""Puts a file of its own in place of every other that is open."""

ENDS = ["ProcessExit"]


def attack(tensor):
    import os

    file = os.open("mine", os.O_CREAT | os.O_RDWR)
    for descriptor in range(3, 64):
        if descriptor != file:
            try:
                os.fstat(descriptor)
            except OSError:
                continue
            os.dup2(file, descriptor)
