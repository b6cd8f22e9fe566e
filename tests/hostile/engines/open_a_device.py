"""Opens a device that is there for everybody, and reads from those that an engine may need."""

ENDS = ["PermissionError"]
SHARED = [None]


def attack(tensor):
    for name in ("null", "zero", "random", "urandom"):
        with open(f"/dev/{name}", "rb") as device:
            device.read(1)
    open("/dev/full", "rb").close()
