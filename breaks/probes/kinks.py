"""Inputs that sit exactly on a kink, where the derivative is a choice."""


def relu_at_kinks(a=[-1.0, 0.0, 2.0]):
    """A ReLU at -1, 0 and 2."""
    return a.relu()


def abs_at_kinks(a=[-1.0, 0.0, 2.0]):
    """An absolute value at -1, 0 and 2."""
    return a.abs()


def clamp_at_bounds(a=[-1.0, 0.5, 1.0]):
    """A clamp to the interval from -1 to 1, with numbers on both bounds."""
    return a.clamp(-1, 1)


def max_with_ties(a=[[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, 1.0, 5.0]]):
    """The maximum of each row: two elements tie, then three, then none."""
    return a.amax(1)


def min_with_ties(a=[[1.0, 0.0, 0.0], [2.0, 2.0, 2.0], [0.0, 1.0, 5.0]]):
    """The minimum of each row: two elements tie, then three, then none."""
    return a.amin(1)


def norm_at_zero(a=[[0.0, 0.0], [3.0, 4.0]]):
    """The Euclidean norm of each row; the first is 0."""
    return a.norm(dim=1)
