"""Sends empty frames for a minute."""

ENDS = ["ForgedResult"]


def attack(tensor):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        raw(bytes(4096))
