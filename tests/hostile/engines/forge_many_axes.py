"""Sends an array of a thousand axes."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (1,) * 1000, "data": bytes(8)}
    send(run("square", "weighted", output=array))
