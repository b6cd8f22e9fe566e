"""Puts a link to the user's home in place of the scratch folder, which will be emptied."""

ENDS = ["OSError"]
SHARED = [None]


def attack(tensor):
    import os
    import pathlib

    here = os.getcwd()
    os.rmdir(here)
    os.symlink(pathlib.Path(__file__).parent.parent / "home", here)
