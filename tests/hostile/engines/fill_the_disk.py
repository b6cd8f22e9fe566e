"""Writes four times what it may, in files of a megabyte."""

ENDS = ["OSError"]
SHARED = [None]
LIMITS = {"file_size": 16 * 1024 * 1024}


def attack(tensor):
    for count in range(64):
        with open(f"{count}", "wb") as file:
            file.write(bytes(1024 * 1024))
