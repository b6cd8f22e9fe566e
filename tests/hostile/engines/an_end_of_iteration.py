"""Raises what ends a loop, in a function that is not one."""

ENDS = ["StopIteration", "RuntimeError"]


def attack(tensor):
    raise StopIteration(tensor)
