"""Sends results with tickets that nobody gave it."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("square", "weighted"), ticket=b"12345678")
