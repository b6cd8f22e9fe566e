"""Linear algebra."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded


def matmul(a: Array, b: Array, *, wanted: tuple[bool, bool] = (True, True)) -> Recorded:
    """Matrix product `a @ b`: (..., m, k) @ (..., k, n) -> (..., m, n); the batch axes broadcast.

    As in NumPy, an `a` of shape (k,) is a row and a `b` of shape (k,) a column, and the value lacks
    that axis. For C = A B, dA = dC Bᵀ and dB = Aᵀ dC. A product that is not `wanted` is not
    computed. Raises ValueError if the inner lengths differ or an operand is 0-d.
    """
    value = a @ b
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b

    def vjp(g: Array) -> Cotangents:
        if b.ndim == 1:
            g = g[..., None]
        if a.ndim == 1:
            g = g[..., None, :]
        da = db = None
        if wanted[0]:
            da = unbroadcast(g @ columns.swapaxes(-1, -2), a.shape)
        if wanted[1]:
            db = rows.swapaxes(-1, -2) @ g
            db = unbroadcast(db[..., 0] if b.ndim == 1 else db, b.shape)
        return da, db

    return value, vjp


def solve(a: Array, b: Array) -> Recorded:
    """The `x` with `a @ x = b`: (..., n, n) and (..., n, k) -> (..., n, k).

    The batch axes broadcast. A `b` of shape (n,) is a column, and the value lacks that axis. For
    X = A⁻¹ B, dB = A⁻ᵀ dX and dA = -dB Xᵀ. Raises numpy.linalg.LinAlgError if a matrix is singular.
    Source: Giles, An Extended Collection of Matrix Derivative Results, 2008.
    """
    solution = np.linalg.solve(a, b[:, None] if b.ndim == 1 else b)

    def vjp(g: Array) -> Cotangents:
        db = np.linalg.solve(a.swapaxes(-1, -2), g[..., None] if b.ndim == 1 else g)
        da = -db @ solution.swapaxes(-1, -2)
        return unbroadcast(da, a.shape), unbroadcast(db[..., 0] if b.ndim == 1 else db, b.shape)

    return solution[..., 0] if b.ndim == 1 else solution, vjp


def einsum(*arrays: Array, subscripts: str, wanted: Sequence[bool]) -> Recorded:
    """Sum of products, with a letter for each axis: "ij,jk->ik" is the matrix product.

    As in NumPy, a letter missing in the output is summed over, one that occurs twice in an operand
    selects the diagonal, and `...` stands for axes that broadcast. Without an arrow, the output has
    the letters that occur once, sorted. An operand's cotangent is also an einsum, of `g` and all
    other operands; it is not computed unless it is `wanted`. Raises ValueError if letters, operands
    and lengths do not match.
    """
    value = np.einsum(subscripts, *arrays, optimize=True)
    terms, output = _letters(subscripts, [a.ndim for a in arrays])

    def cotangent(i: int, g: Array) -> Array:
        factors = [g, *arrays[:i], *arrays[i + 1 :]]
        others = [output, *terms[:i], *terms[i + 1 :]]
        lengths = dict(zip(terms[i], arrays[i].shape, strict=True))
        own, shape = "".join(lengths), tuple(lengths.values())
        known = "".join(letter for letter in own if letter in "".join(others))
        product = np.einsum(f"{','.join(others)}->{known}", *factors, optimize=True)
        # A letter in no other term was summed over: the cotangent is repeated along it.
        alone = tuple(axis for axis, letter in enumerate(own) if letter not in known)
        spread = np.broadcast_to(unbroadcast(np.expand_dims(product, alone), shape), shape)
        if own == terms[i]:
            return spread
        whole = np.zeros(arrays[i].shape, g.dtype)
        diagonal = np.einsum(f"{terms[i]}->{own}", whole)  # a view
        diagonal[...] = spread
        return whole

    def vjp(g: Array) -> Cotangents:
        return tuple(cotangent(i, g) if needed else None for i, needed in enumerate(wanted))

    return value, vjp


def _letters(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the output, also for the axes of `...`."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:
        once = sorted(x for x in string.ascii_letters if inputs.count(x) == 1)
        output = "".join(["..." if "..." in inputs else "", *once])
    unnamed = [ndim - len(term.replace("...", "")) for term, ndim in zip(terms, ndims, strict=True)]
    free = "".join(x for x in string.ascii_letters if x not in inputs)[: max(unnamed)]
    named = [
        term.replace("...", free[len(free) - n :]) for term, n in zip(terms, unnamed, strict=True)
    ]
    return named, output.replace("...", free)
