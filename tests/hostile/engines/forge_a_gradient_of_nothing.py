"""Sends gradients for names that are not those of the leaves, and none for those that are."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "<f8", "shape": (3,), "data": bytes(24)}
    parts = {"leaves": {"a": array}, "output": array, "cotangent": array}
    send(run("square", "weighted", **parts, gradients={"b": array, "c": None}))
