"""Writes to the terminal behind everybody's back."""

ENDS = ["OSError", "PermissionError"]


def attack(tensor):
    with open("/dev/tty", "w") as terminal:
        terminal.write("\x1b[2J")
