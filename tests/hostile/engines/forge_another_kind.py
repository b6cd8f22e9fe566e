"""Sends that the engine is loaded, where a result was asked for."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x80", kind=b"L")
