"""Announces more than it sends, so that its result becomes a part of it."""

ENDS = ["ForgedResult"]


def attack(tensor):
    raw((50).to_bytes(4, "big") + b"short")
