"""Sends its own result, and then one for the probe after it."""

ENDS = ["any"]


def attack(tensor):
    send(run("square", "weighted"))
    send(run("canary", None))
