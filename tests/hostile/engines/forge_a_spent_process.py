"""Says, without end, that somebody else has used up the process."""

ENDS = ["ForgedResult"]


def attack(tensor):
    send(b"\x80", kind=b"S")
