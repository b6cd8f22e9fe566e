"""Sends a name that would repaint the terminal."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(run("square", "weighted", shared=[("\x1b[2J", "a")]))
