"""Sends a result for leaves that the probe does not have."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (2,), "data": bytes(16)}
    send(run("square", "weighted", leaves={"b": array}, output=array, cotangent=array))
