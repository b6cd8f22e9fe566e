"""Adds a hook that no one can remove, and that refuses whatever Python does."""

ENDS = ["any"]


def attack(tensor):
    import sys

    def refuse(event, _):
        raise RuntimeError(event)

    sys.addaudithook(refuse)
