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


def permute_negative(a=(2, 3, 4)):
    """A cycle of three axes, the last of them called -1."""
    return a.permute(-1, 0, 1)


def permute_021(a=(2, 3, 4)):
    """Two axes swapped by permute, which is its own inverse."""
    return a.permute(0, 2, 1)


def cat_equal(lib, a=(2, 3), b=(2, 3)):
    """Two tensors of equal length, concatenated."""
    return lib.cat([a, b])


def cat_of_three(lib, a=(2, 1), b=(2, 3), c=(2, 2)):
    """Three tensors of different lengths, concatenated along the last axis."""
    return lib.cat([a, b, c], dim=-1)


def stack_three(lib, a=(2, 4), b=(2, 4), c=(2, 4)):
    """Three tensors, stacked along a new last axis."""
    return lib.stack([a, b, c], dim=-1)


def expand(a=(3, 1)):
    """A created axis, one that stays and a stretched one."""
    return a.expand(2, 3, 4)


def pad(lib, a=(2, 3)):
    """A constant around a matrix, of another width on each side."""
    function = lib.nn.functional.pad if hasattr(lib, "manual_seed") else lib.pad
    return function(a, (1, 2, 3, 0), value=2.0)


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
