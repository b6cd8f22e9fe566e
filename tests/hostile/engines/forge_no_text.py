"""Sends a name that is no UTF-8."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x81\xa5probe\xa2\xff\xfe")
