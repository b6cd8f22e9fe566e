"""Writes twice as much as it may into one file."""

ENDS = ["OSError"]
LIMITS = {"file_size": 16 * 1024 * 1024}


def attack(tensor):
    with open("large", "wb") as file:
        for _ in range(32):
            file.write(bytes(1024 * 1024))
            file.flush()
