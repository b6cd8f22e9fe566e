"""Sends its result byte by byte, and never finishes."""

ENDS = ["TimeLimit"]
SLOW = True
LIMITS = {"seconds": 2}


def attack(tensor):
    raw((60_000_000).to_bytes(4, "big"))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        raw(b"x")
        time.sleep(0.001)
