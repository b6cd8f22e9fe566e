"""Raises StopIteration in a function that is not an iterator."""

ENDS = ["StopIteration", "RuntimeError"]


def attack(tensor):
    raise StopIteration(tensor)
