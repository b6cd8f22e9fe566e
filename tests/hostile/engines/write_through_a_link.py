"""Writes through a link from its scratch folder to somewhere else."""

ENDS = ["OSError"]
SHARED = None


def attack(tensor):
    import pathlib

    link = pathlib.Path("link")
    link.symlink_to(pathlib.Path(__file__).parent.parent / "home")
    (link / ".profile").write_text("changed")
