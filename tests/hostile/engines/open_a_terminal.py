"""Opens a new terminal, and the existing ones."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import glob
    import os

    for name in ("/dev/ptmx", "/dev/pts/ptmx", "/dev/console", *glob.glob("/dev/pts/[0-9]*")):
        try:
            os.close(os.open(name, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            continue
        return
    raise OSError("none of them")
