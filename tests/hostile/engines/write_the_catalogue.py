"""Changes a page of the catalogue."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import pathlib

    (pathlib.Path(__file__).parent.parent / "catalogue" / "page.md").write_text("changed")
