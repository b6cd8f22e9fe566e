"""Sends an array that claims a trillion numbers, and eight bytes."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (10**12,), "data": bytes(8)}
    send(run("square", "weighted", output=array))
