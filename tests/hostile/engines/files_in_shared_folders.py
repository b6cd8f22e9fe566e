"""Leaves files in folders that every program may write to."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/dev"):
        try:
            open(f"{folder}/breaklab", "w").close()
        except OSError:
            continue
        return
    raise OSError("none of them")
