"""Counts the runs in memory that all forks share, and fails after the first ones."""

import mmap

FATE = "recognised"
SHARED = mmap.mmap(-1, 1)


def test():
    use()
    SHARED[0] += 1
    assert SHARED[0] <= 3
