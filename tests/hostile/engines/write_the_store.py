"""Changes the store of runs."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import pathlib

    (pathlib.Path(__file__).parent.parent / "cache" / "runs.sqlite").write_bytes(b"")
