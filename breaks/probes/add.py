"""Additions, from the harmless to the telling: what differs is how an operand was broadcast."""


def add_same_shape(a=(4, 3), b=(4, 3)):
    """Equal shapes: (4, 3) + (4, 3), nothing is broadcast."""
    return a + b


def add_new_axis(a=(3,), b=(4, 3)):
    """A created axis: (3,) + (4, 3)."""
    return a + b


def add_stretched_axis(a=(3, 1), b=(3, 5)):
    """A stretched axis: (3, 1) + (3, 5)."""
    return a + b


def add_length_one_axis(a=(3,), b=(1, 3)):
    """A created axis of length one: (3,) + (1, 3)."""
    return a + b


def add_scalar(a=(), b=(4, 3)):
    """A scalar operand: () + (4, 3)."""
    return a + b


def add_inside(a=(3, 5)):
    """The stretched operand is no leaf: a + its own row means."""
    return a + a.mean(1, keepdim=True)
