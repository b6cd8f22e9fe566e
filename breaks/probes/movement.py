"""Ops that move elements without computing."""


def reshape(a=(4, 3)):
    """(4, 3) to (2, 6)."""
    return a.reshape(2, 6)


def reshape_inside(a=(4, 3)):
    """The reshaped tensor is not the output: its square is."""
    b = a.reshape(2, 6)
    return b * b


def square_transpose(a=(3, 3)):
    """The transpose of a square matrix."""
    return a.transpose(0, 1)


def permute_120(a=(2, 3, 4)):
    """A cycle of three axes, which is not its own inverse."""
    return a.permute(1, 2, 0)


def permute_021(a=(2, 3, 4)):
    """Two axes swapped by permute, which is its own inverse."""
    return a.permute(0, 2, 1)


def cat_equal(lib, a=(2, 3), b=(2, 3)):
    """Two tensors of equal length, concatenated."""
    return lib.cat([a, b])


def flip(a=[1.0, 2.0, 3.0]):
    """A vector backwards."""
    return a.flip(0)


def split_evenly(a=[1.0, 2.0, 3.0, 4.0]):
    """Four elements split into two pieces, the first times the second."""
    first, second = a.split(2)
    return first * second


def squeeze_column(a=(4, 1)):
    """A column of four without its second axis."""
    return a.squeeze(1)
