"""Changes its own source."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    open(__file__, "a").write("# changed")
