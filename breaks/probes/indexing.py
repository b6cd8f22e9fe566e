"""Indexing."""


def slice_of_rows(a=(4, 3)):
    """Rows 1 and 2, by a slice."""
    return a[1:3]


def distinct_rows(lib, a=(4, 3)):
    """Rows 2 and 0, by an array of integers without repetition."""
    return a[lib.tensor([2, 0])]


def duplicate_index(lib, a=(3, 2)):
    """Row 2 three times and row 0 once, by an array of integers, as in an embedding."""
    return a[lib.tensor([2, 0, 2, 2])]


def duplicate_index_in_list(a=(3, 2)):
    """The same rows, by a list of integers."""
    return a[[2, 0, 2, 2]]


def mask(lib, a=(3, 2)):
    """Rows 0 and 2, by a mask."""
    return a[lib.tensor([True, False, True])]


def gather(lib, a=(2, 3)):
    """One element of each row, and another of each row, along axis 1."""
    return a.gather(1, lib.tensor([[0, 2], [1, 0]]))


def gather_twice(lib, a=(2, 3)):
    """The same element of a row picked twice along axis 1."""
    return a.gather(1, lib.tensor([[2, 2], [1, 0]]))


def row_among_others(a=(3, 2)):
    """A row added to the array it comes from: indexing is one of two paths to the leaf."""
    return a + a[0]
