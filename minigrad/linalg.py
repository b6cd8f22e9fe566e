"""Linear algebra."""

from __future__ import annotations

from minigrad.broadcasting import unbroadcast
from minigrad.types import Array, Cotangents, Recorded


def matmul(a: Array, b: Array, *, wanted: tuple[bool, bool] = (True, True)) -> Recorded:
    """Matrix product `a @ b`: (..., m, k) @ (..., k, n) -> (..., m, n); the batch axes broadcast.

    As in NumPy, an `a` of shape (k,) is a row and a `b` of shape (k,) a column, and that axis is
    missing in the value. For C = A B, dA = dC Bᵀ and dB = Aᵀ dC. A product nobody `wanted` is not
    computed. Raises ValueError where the inner lengths differ or an operand is 0-d.
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
