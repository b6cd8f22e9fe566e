"""One call into compiled code that takes a minute."""

ENDS = ["ProcessorTimeLimit", "TimeLimit"]
LIMITS = {"cpu_seconds": 0.5}


def attack(tensor):
    import numpy as np

    np.linalg.svd(np.random.default_rng(0).normal(size=(3000, 3000)))
