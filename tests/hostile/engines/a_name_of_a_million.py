"""An exception whose type has a name of a million characters, made of the name of a limit."""

ENDS = ["any"]


def attack(tensor):
    raise type("TimeLimit" * 10**5, (SystemExit,), {})(10**9)
