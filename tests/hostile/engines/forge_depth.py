"""Sends lists in lists."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x91" * 10_000_000)
