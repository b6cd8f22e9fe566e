"""Leaves a process, which would be a child of the next probe's."""

ENDS = [None]


def attack(tensor):
    import subprocess

    subprocess.Popen(["sleep", "20"])
