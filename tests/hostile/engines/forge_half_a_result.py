"""Sends a result that has reached its patch, and in which nothing was observed."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("square", "weighted", reached=[0]))
