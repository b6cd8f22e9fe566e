"""Sends results of NaN, which are results."""

ENDS = ["any"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (3,), "data": b"\xff" * 24}
    send(run("square", "weighted", output=array, seconds=float("nan")))
