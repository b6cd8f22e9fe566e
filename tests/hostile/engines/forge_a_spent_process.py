"""Says, again and again, that an earlier run has made a new process necessary."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x80", kind=b"S")
