"""Sends a frame for a minute."""

ENDS = ["ForgedResult", "ProcessorTimeLimit"]
LIMITS = {"cpu_seconds": 3}


def attack(tensor):
    raw((64 * 1024 * 1024).to_bytes(4, "big"))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        raw(bytes(65536))
