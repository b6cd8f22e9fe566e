"""Products of vectors, matrices and batches of matrices."""


def matmul_2x3_3x4(a=(2, 3), b=(3, 4)):
    """A matrix product in which no two lengths are equal."""
    return a @ b


def matmul_square(a=(3, 3), b=(3, 3)):
    """A matrix product of two square matrices."""
    return a @ b


def matmul_batch(a=(2, 2, 3), b=(2, 3, 2)):
    """A matrix product for each of two pairs of matrices."""
    return a @ b


def matmul_cube(a=(2, 2, 2), b=(2, 2, 2)):
    """A batch of matrix products in which all lengths are equal."""
    return a @ b


def matmul_vector(a=(2, 3), b=(3,)):
    """A matrix times a vector."""
    return a @ b


def gram(a=(2, 3)):
    """A matrix times its own transpose: the same leaf on both sides."""
    return a @ a.T


def einsum_matrices(lib, a=(2, 3), b=(3, 4)):
    """The matrix product as an einsum."""
    return lib.einsum("ij,jk->ik", a, b)


def einsum_diagonal(lib, a=(3, 3)):
    """The diagonal of a matrix, as an einsum with a letter twice in one operand."""
    return lib.einsum("ii->i", a)
