"""An exception that says ten million characters."""

ENDS = ["ValueError"]


def attack(tensor):
    raise ValueError("long " * 2_000_000)
