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


# ----- The other way: to places that an index names -----


def index_add_distinct(lib, a=(3, 2), b=(2, 2)):
    """Two rows added to rows 2 and 0 of another array."""
    return a.index_add(0, lib.tensor([2, 0]), b)


def index_add_repeated(lib, a=(3, 2), b=(4, 2)):
    """Three rows added to row 2 and one to row 0, as messages to the nodes of a graph."""
    return a.index_add(0, lib.tensor([2, 0, 2, 2]), b)


def index_add_columns(lib, a=(2, 3), b=(2, 2)):
    """Both columns of one array added to column 1 of another."""
    return a.index_add(-1, lib.tensor([1, 1]), b)


def sort(a=[[2.0, 2.0], [3.0, 1.0], [4.0, 4.0], [1.0, 3.0]]):
    """Columns in ascending order: one goes round in a circle of four, the other swaps in pairs."""
    return a.sort(0)[0]
