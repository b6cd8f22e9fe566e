"""Sends an array of negative lengths."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (-1, -1), "data": bytes(8)}
    send(run("square", "weighted", output=array))
