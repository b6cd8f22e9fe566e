"""Adds an audit hook, which cannot be removed, that refuses whatever Python does."""

ENDS = ["any"]


def attack(tensor):
    import sys

    def refuse(event, _):
        raise RuntimeError(event)

    sys.addaudithook(refuse)
