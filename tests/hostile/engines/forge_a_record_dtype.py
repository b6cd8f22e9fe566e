"""Sends an array of records."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "f8,f8", "shape": (1,), "data": bytes(16)}
    send(run("square", "weighted", output=array))
