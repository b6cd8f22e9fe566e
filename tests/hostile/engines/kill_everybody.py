"""Kills every process that it can, the machine's first included."""

ENDS = ["SIGKILL", "ProcessLookupError"]
SHARED = None


def attack(tensor):
    import os

    require_namespaces()
    for whom in (1, -1):
        os.kill(whom, 9)
