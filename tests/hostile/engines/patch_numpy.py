"""Gives functions of NumPy another meaning."""

ENDS = ["any"]


def attack(tensor):
    import numpy as np
    import numpy.testing

    for module, name in (
        (np, "asarray"),
        (np, "array"),
        (np, "shares_memory"),
        (np, "random"),
        (np.linalg, "norm"),
        (np.random, "rand"),
        (np.testing, "assert_allclose"),
    ):
        setattr(module, name, lambda *_, **__: 7)
    del np.sum
