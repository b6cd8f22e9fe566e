"""Sends an array without a number, of lengths that no array can have."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (0, 2**62, 2**62), "data": b""}
    send(run("square", "weighted", output=array))
