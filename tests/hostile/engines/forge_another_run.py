"""Sends the result of another probe in place of its own."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("canary", None))
