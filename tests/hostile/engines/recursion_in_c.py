"""A list in lists, so deep that compiled code overflows the stack to print it."""

ENDS = ["SIGSEGV", "RecursionError"]
LIMITS = {"cpu_seconds": 600}  # a slow machine takes long to come to the end of the stack


def attack(tensor):
    import sys

    sys.setrecursionlimit(10**7)
    deep = []
    for _ in range(10**6):
        deep = [deep]
    repr(deep)
