"""Announces more than it sends, and ends."""

ENDS = ["ForgedResult", "ProcessExit"]


def attack(tensor):
    raw((1000).to_bytes(4, "big") + b"short")
    os._exit(0)
