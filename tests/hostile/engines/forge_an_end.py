"""Says that a program has ended, where there is none."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x80", kind=b"E")
