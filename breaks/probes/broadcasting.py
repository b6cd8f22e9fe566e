"""Operands that broadcast, from harmless cases to revealing ones."""


# ----- Additions, with different kinds of broadcasting -----


def add_same_shape(a=(4, 3), b=(4, 3)):
    """Equal shapes: (4, 3) + (4, 3), nothing is broadcast."""
    return a + b


def add_new_axis(a=(3,), b=(4, 3)):
    """A created axis: (3,) + (4, 3)."""
    return a + b


def add_two_new_axes(a=(3,), b=(2, 4, 3)):
    """Two created axes: (3,) + (2, 4, 3)."""
    return a + b


def add_stretched_axis(a=(3, 1), b=(3, 5)):
    """A stretched axis: (3, 1) + (3, 5)."""
    return a + b


def add_stretched_matrix(a=(2, 1, 3), b=(2, 4, 3)):
    """A stretched axis between two others: (2, 1, 3) + (2, 4, 3)."""
    return a + b


def add_column_and_row(a=(3, 1), b=(5,)):
    """Both operands are broadcast, on different axes: (3, 1) + (5,)."""
    return a + b


def add_length_one_axis(a=(3,), b=(1, 3)):
    """A created axis of length one: (3,) + (1, 3)."""
    return a + b


def add_scalar(a=(), b=(4, 3)):
    """A scalar operand: () + (4, 3)."""
    return a + b


def add_inside(a=(3, 5)):
    """The stretched operand is not a leaf: a + its own row means."""
    return a + a.mean(1, keepdim=True)


# ----- The other ops that broadcast -----


def sub_new_axis(a=(4, 3), b=(3,)):
    """The subtrahend is broadcast: (4, 3) - (3,)."""
    return a - b


def squared_deviations(a=(3, 5)):
    """Subtract its mean from every row, which stretches a result, and square."""
    deviation = a - a.mean(1, keepdim=True)
    return deviation * deviation


def mul_stretched_axis(a=(3, 1), b=(3, 5)):
    """A stretched factor: (3, 1) * (3, 5)."""
    return a * b


def unit_rows(x=(3, 4)):
    """Divide every row by its length: the denominator is stretched and is not a leaf."""
    return x / (x * x).sum(1, keepdim=True).sqrt()


def where_scalar(lib, a=0.5, b=(4, 3)):
    """A choice between a scalar and a (4, 3) operand, by the sign of the latter."""
    return lib.where(b > 0, a, b)


# ----- One op, and every kind of broadcasting in either operand -----


def add_broadcast(a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """Sums with created axes, stretched ones, both or neither, on either side; a + a."""
    left = ((row + a) + (column + a)) + ((one + a) + (a + number))
    return (left + ((column + row) + (a + a))) + (a + column)


def sub_broadcast(a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """Nested differences: created axes, stretched ones, both or neither, on either side; a - a."""
    left = ((row - a) - (column - a)) - ((one - a) - (a - number))
    return (left - ((column - row) - (a - a))) - (a - column)


def mul_broadcast(a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """Products with created axes, stretched ones, both or neither, on either side; a * a."""
    left = ((row * a) * (column * a)) * ((one * a) * (a * number))
    return (left * ((column * row) * (a * a))) * (a * column)


def div_broadcast(
    a=[[1.0, -2.0, 0.5], [3.0, 2.0, -1.0]],
    row=[2.0, -0.5, 1.5],
    column=[[0.5], [-2.0]],
    one=[3.0],
    number=-1.5,
):
    """Nested quotients: created axes, stretched ones, both or neither, on either side; a / a."""
    left = ((row / a) / (column / a)) / ((one / a) / (a / number))
    return (left / ((column / row) / (a / a))) / (a / column)


def maximum_broadcast(lib, a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """The larger of two tensors, with every kind of broadcasting, and of two equal ones."""
    return _sum_of_pairs(lib.maximum, a, row, column, one, number)


def minimum_broadcast(lib, a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """The smaller of two tensors, with every kind of broadcasting, and of two equal ones."""
    return _sum_of_pairs(lib.minimum, a, row, column, one, number)


def where_broadcast(lib, a=(2, 3), row=(3,), column=(2, 1), one=(1,), number=()):
    """A choice by a mask, with every kind of broadcasting, and of two equal tensors."""
    mask = lib.tensor([[True, False, True], [False, True, False]])
    return _sum_of_pairs(lambda x, y: lib.where(mask, x, y), a, row, column, one, number)


def _sum_of_pairs(op, a, row, column, one, number):
    """Created axes, stretched ones, both, a scalar, both operands, and the same tensor twice."""
    return op(row, a) + op(a, column) + op(one, a) + op(a, number) + op(column, row) + op(a, a)


def broadcast_twice(row=(3,), a=(4, 3), b=(2, 4, 3)):
    """One operand is broadcast to two shapes, and used as it is."""
    return ((row + a) + (row + b)) + (row + row)


# ----- A linear layer -----


def affine(x=(4, 3), w=(3, 2), b=(2,)):
    """x @ w + b for a batch of 4 rows."""
    return x @ w + b


def affine_one_row(x=(1, 3), w=(3, 2), b=(2,)):
    """x @ w + b for a batch of one row."""
    return x @ w + b


def affine_mean_loss(x=(4, 3), w=(3, 2), b=(2,)):
    """The mean of (x @ w + b) ** 2: each row has another gradient."""
    return ((x @ w + b) ** 2).mean()


def shared_matrix(a=(2, 3, 4), b=(4, 5)):
    """One matrix for a batch of two: (2, 3, 4) @ (4, 5)."""
    return a @ b
