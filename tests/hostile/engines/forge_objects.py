"""Sends an array of Python objects."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "O", "shape": (1,), "data": bytes(8)}
    send(run("square", "weighted", output=array))
