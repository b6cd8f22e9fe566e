"""Sends a result that reached the patch but contains no observations."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("square", "weighted", reached=[0]))
