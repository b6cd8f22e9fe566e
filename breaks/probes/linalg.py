"""Products of vectors, matrices and batches of matrices."""

import numpy as np


def matmul_2x3_3x4(a=(2, 3), b=(3, 4)):
    """A matrix product in which no two lengths are equal."""
    return a @ b


def matmul_square(a=(3, 3), b=(3, 3)):
    """A matrix product of two square matrices."""
    return a @ b


def matmul_itself(a=(3, 3)):
    """A square matrix times itself: (3, 3) @ (3, 3)."""
    return a @ a


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


def matmul_vectors(u=(2,), v=(3,), m=(3, 2), b=(2, 2, 3)):
    """Vectors times a batch of matrices, on either side of a matrix, and times each other."""
    return ((u @ b) @ (m @ u)) @ (v @ m)


def matmul_constant(lib, a=(2, 3)):
    """A constant matrix on the right of a product, and on the left of another."""
    c = lib.tensor(np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 2.0]]))
    return c @ (a @ c)


def einsum_matrices(lib, a=(2, 3), b=(3, 4)):
    """The matrix product as an einsum."""
    return lib.einsum("ij,jk->ik", a, b)


def einsum_diagonal(lib, a=(3, 3)):
    """The diagonal of a matrix, as an einsum with a letter twice in one operand."""
    return lib.einsum("ii->i", a)


def einsum_without_arrow(lib, a=(2, 3), b=(2, 2, 3), c=(3, 2)):
    """Letters that only one operand has, and an output that is not named."""
    return lib.einsum("ij, kl -> il", a, c) @ lib.einsum("...ij, jk", b, c)


def einsum_ellipsis(lib, a=(2, 3), b=(2, 1, 3), c=(3,)):
    """An ellipsis for no axis, one and two, and a length of 1 that is stretched."""
    return lib.einsum("...a, ...a, ...b -> b...", a, b, c)


def _solve(lib, a, b):
    """The solution of `a @ x = b`."""
    return lib.linalg.solve(a, b) if hasattr(lib, "manual_seed") else lib.solve(a, b)


def solve_batches(lib, a=[[[2.0, 1.0], [0.0, 1.0]], [[1.0, -1.0], [1.0, 1.0]]], b=(2, 3)):
    """Two linear systems with one right side, then one system for both solutions."""
    return _solve(lib, a[0], _solve(lib, a, b))


def solve_vector(lib, a=[[2.0, 1.0], [0.0, 1.0]], b=[3.0, 1.0]):
    """A linear system of two equations."""
    return _solve(lib, a, b)


def solve_symmetric(lib, a=[[2.0, 1.0], [1.0, 2.0]], b=[3.0, 0.0]):
    """A linear system with a symmetric matrix."""
    return _solve(lib, a, b)
