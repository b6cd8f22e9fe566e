"""Leaves a file in the user's home."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import pathlib

    (pathlib.Path(__file__).parent.parent / "home" / ".profile").write_text("changed")
