"""Kills every process that it can, the machine's first included."""

ENDS = ["SIGKILL", "ProcessLookupError"]
SHARED = None


def attack(tensor):
    import os

    with open("/proc/1/cmdline") as first:
        if "harness.sandbox" not in first.read():
            raise RuntimeError("this process has no namespaces of its own: nothing is tried")
    for whom in (1, -1):
        os.kill(whom, 9)
