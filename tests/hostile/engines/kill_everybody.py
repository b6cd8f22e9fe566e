"""Kills every process that it can, the machine's first included."""

ENDS = ["ProcessLookupError"]
SHARED = None


def attack(tensor):
    import os

    with open("/proc/self/status") as status:
        numbers = [line.split()[1:] for line in status if line.startswith("NSpid:")]
    if len(numbers[0]) < 2 or os.getpid() > 100:
        raise RuntimeError("this process is in no world of its own: nothing is tried")
    for whom in (1, -1):
        os.kill(whom, 9)
