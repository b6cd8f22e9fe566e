"""Sends a result in a form of the future."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("square", "weighted"), version=99)
