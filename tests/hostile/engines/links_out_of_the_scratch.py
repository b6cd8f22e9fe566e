"""Leaves links that lead out of its scratch folder to whoever tidies up."""

ENDS = [None]


def attack(tensor):
    import os
    import pathlib

    root = pathlib.Path(__file__).parent.parent
    for name in ("home", "catalogue", "engine", "cache"):
        os.symlink(root / name, name)
    os.mkdir("below")
    os.symlink(root / "home", "below/home")
    os.symlink("loop", "loop")
    os.mkfifo("pipe")
