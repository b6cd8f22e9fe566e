"""Ops that move elements and compute nothing."""


def reshape(a=(4, 3)):
    """(4, 3) to (2, 6)."""
    return a.reshape(2, 6)


def reshape_inside(a=(4, 3)):
    """The reshaped tensor is no output: its square is."""
    b = a.reshape(2, 6)
    return b * b


def square_transpose(a=(3, 3)):
    """The transpose of a square matrix."""
    return a.transpose(0, 1)


def transpose_2x3(a=(2, 3)):
    """The transpose of a matrix with two different lengths."""
    return a.transpose(0, 1)


def transpose_first_axes(a=(2, 3, 4)):
    """The first two of three axes swapped."""
    return a.transpose(0, 1)


def permute_120(a=(2, 3, 4)):
    """A cycle of three axes, which is not its own inverse."""
    return a.permute(1, 2, 0)


def permute_120_of_cube(a=(3, 3, 3)):
    """The same cycle, where all lengths are equal."""
    return a.permute(1, 2, 0)


def permute_021(a=(2, 3, 4)):
    """Two axes swapped by permute, which is its own inverse."""
    return a.permute(0, 2, 1)


def permute_negative(a=(2, 3, 4)):
    """A cycle of three axes, the last of them called -1."""
    return a.permute(-1, 0, 1)


def cat_unequal(lib, a=(2, 3), b=(4, 3)):
    """Two tensors of different lengths, one after the other."""
    return lib.cat([a, b])


def cat_equal(lib, a=(2, 3), b=(2, 3)):
    """Two tensors of equal lengths, one after the other."""
    return lib.cat([a, b])


def cat_columns(lib, a=(3, 1), b=(3, 2)):
    """Two tensors side by side, along the last axis."""
    return lib.cat([a, b], 1)


def stack_first(lib, a=(3,), b=(3,)):
    """Two vectors as the rows of a matrix."""
    return lib.stack([a, b])


def stack_last(lib, a=(2,), b=(2,)):
    """Two vectors as the columns of a matrix, which is square."""
    return lib.stack([a, b], 1)


def stack_last_2x3(lib, a=(3,), b=(3,)):
    """Two vectors as the columns of a matrix, which is not square."""
    return lib.stack([a, b], 1)


def flip(a=[1.0, 2.0, 3.0]):
    """A vector backwards."""
    return a.flip(0)


def expand_column(a=(3, 1)):
    """A column stretched to five columns."""
    return a.expand(3, 5)


def pad_both_sides(lib, a=[1.0, 2.0, 3.0]):
    """A zero before a vector and a zero behind it."""
    return _pad(lib, a, (1, 1))


def pad_behind(lib, a=[1.0, 2.0, 3.0]):
    """Two zeros behind a vector, none before it."""
    return _pad(lib, a, (0, 2))


def split_evenly(a=[1.0, 2.0, 3.0, 4.0]):
    """Four elements in pieces of two, the first times the second."""
    first, second = a.split(2)
    return first * second


def split_with_rest(a=[1.0, 2.0, 3.0, 4.0, 5.0]):
    """Five elements in pieces of two: the sum of the squares of all pieces."""
    return sum((piece * piece).sum() for piece in a.split(2))


def squeeze_column(a=(4, 1)):
    """A column of four without its second axis."""
    return a.squeeze(1)


def squeeze_batch_of_one(a=(1, 1)):
    """The same for a batch of one: the first axis stays."""
    return a.squeeze(1)


def _pad(lib, a, widths):
    """`pad` is in `torch.nn.functional` there, and in the module itself here."""
    return (lib.pad if hasattr(lib, "pad") else lib.nn.functional.pad)(a, widths)
