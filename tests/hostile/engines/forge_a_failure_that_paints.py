"""Sends a failure that would repaint the terminal, a megabyte of it."""

ENDS = ["\\x1bc"]


def attack(tensor):
    failure = {
        "phase": "forward",
        "where": "\x1b[2J",
        "type": "\x1bc",
        "message": "\x1b[31m" * 200_000,
    }
    send(run("square", "weighted", failure=failure))
