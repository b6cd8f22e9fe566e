"""Announces four gigabytes."""

ENDS = ["ForgedResult"]


def attack(tensor):
    raw(b"\xff\xff\xff\xff" + bytes(1000))
