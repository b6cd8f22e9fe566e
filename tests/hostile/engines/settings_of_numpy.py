"""Changes how NumPy treats errors, and what it draws."""

ENDS = [None]


def attack(tensor):
    import numpy as np

    np.seterr(all="raise")
    np.random.seed(7)
    np.random.set_bit_generator(np.random.MT19937(7))
    np.set_printoptions(precision=1)
