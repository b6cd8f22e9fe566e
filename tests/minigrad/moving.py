"""Ops that move and pick elements: one line a case, as in `computing`."""

import numpy as np
import torch

from tests.minigrad.against_torch import Case, functional, of
from tests.minigrad.computing import TIES, TURNED

MASK = np.array([True, False, True])
REPEATED = np.array([2, 0, 2, 2])

MOVING: dict[str, Case] = {
    # ----- Movement -----
    "reshape": (lambda a: a.reshape(2, 6), (4, 3)),
    "reshape -1": (lambda a: a.reshape((2, -1)), (4, 3)),
    "reshape, to a scalar": (lambda a: a.reshape(()), (1, 1)),
    "reshape, empty": (lambda a: a.reshape(0), (0, 3)),
    "reshape, turned": (lambda a: a.reshape(6), TURNED),
    "transpose": (lambda a: a.transpose(0, 1), (4, 3)),
    "transpose 0 -1": (lambda a: a.transpose(0, -1), (2, 4, 3)),
    "permute": (lambda a: a.permute(1, 2, 0), (2, 4, 3)),
    "permute, negative": (lambda a: a.permute((-1, 0, -2)), (2, 4, 3)),
    "permute, scalar": (lambda a: a.permute(()), ()),
    "T": (lambda a: a.T, (4, 3)),
    "mT": (lambda a: a.mT, (2, 4, 3)),
    "view": (lambda a: a.view(2, -1), (4, 3)),
    "expand": (lambda a: a.expand(3, 5), (3, 1)),
    "expand, created axis": (lambda a: a.expand((2, -1, 4)), (3, 1)),
    "expand, scalar": (lambda a: a.expand(2, 3), ()),
    "expand, to nothing": (lambda a: a.expand(0, 3), (1, 3)),
    "squeeze": (lambda a: a.squeeze(), (1, 3, 1)),
    "squeeze 0": (lambda a: a.squeeze(0), (1, 3, 1)),
    "squeeze, longer axis": (lambda a: a.squeeze(1), (1, 3, 1)),
    "squeeze (0, -1)": (lambda a: a.squeeze((0, -1)), (1, 3, 1)),
    "unsqueeze 0": (lambda a: a.unsqueeze(0), (3,)),
    "unsqueeze -1": (lambda a: a.unsqueeze(-1), (4, 3)),
    "unsqueeze, scalar": (lambda a: a.unsqueeze(0), ()),
    "flip": (lambda a: a.flip(0), (4, 3)),
    "flip 0 -1": (lambda a: a.flip(0, -1), (2, 4, 3)),
    "flip (1,)": (lambda a: a.flip((1,)), TURNED),
    "pad": (lambda a: functional(a).pad(a, (1, 2)), (4, 3)),
    "pad, two axes": (lambda a: functional(a).pad(a, (1, 0, 0, 2), value=1.5), (4, 3)),
    "pad, nothing": (lambda a: functional(a).pad(a, (0, 0)), (0, 3)),
    "cat": (lambda a, b: of(a).cat([a, b]), (4, 3), (2, 3)),
    "cat -1": (lambda a, b, c: of(a).cat((a, b, c), dim=-1), (2, 1), (2, 3), (2, 2)),
    "cat, with itself": (lambda a, b: of(a).concatenate([a, b, a], 1), (2, 1), (2, 3)),
    "cat, empty": (lambda a, b: of(a).cat([a, b]), (0, 3), (2, 3)),
    "stack": (lambda a, b: of(a).stack([a, b]), (4, 3), (4, 3)),
    "stack -1": (lambda a, b: of(a).stack((a, b, a), dim=-1), (2, 3), (2, 3)),
    "stack, scalars": (lambda a, b: of(a).stack([a, b]), (), ()),
    "split": (lambda a: of(a).cat([x * x for x in a.split(2)][::-1]), (5, 3)),
    "split, listed": (lambda a: a.split([1, 0, 3], dim=-1)[2], (2, 4)),
    # ----- Indexing -----
    "getitem, integer": (lambda a: a[1], (4, 3)),
    "getitem, integers": (lambda a: a[-1, 0], (4, 3)),
    "getitem, slice": (lambda a: a[1:3], (4, 3)),
    "getitem, steps": (lambda a: a[::2, 1], (4, 3)),
    "getitem, nothing": (lambda a: a[3:3], (4, 3)),
    "getitem, ellipsis": (lambda a: a[..., 0], (2, 4, 3)),
    "getitem, new axis": (lambda a: a[:, None], (4, 3)),
    "getitem, mask": (lambda a: a[MASK], (3, 2)),
    "getitem, mask of all axes": (lambda a: a[TIES > 2], (3, 3)),
    "getitem, list": (lambda a: a[[0, 2, 0]], (3, 2)),
    "getitem, repeated": (lambda a: a[REPEATED], (3, 2)),
    "getitem, repeated in a column": (lambda a: a[:, REPEATED], (2, 3)),
    "getitem, repeated and a slice": (lambda a: a[1:, REPEATED], (3, 3)),
    "getitem, repeated outside": (lambda a: a[REPEATED, :, [0, 1, 0, 0]], (3, 2, 2)),
    "getitem, mask and integers": (lambda a: a[MASK, [1, 1]], (3, 2)),
    "getitem, where positive": (lambda a: a[a > 0], (4, 3)),
    "gather": (lambda a: a.gather(1, of(a).tensor([[0, 2, 2], [1, 1, 1]])), (2, 3)),
    "gather 0": (lambda a: a.gather(0, of(a).tensor([[1, 0, 1]])), (2, 3)),
    "gather, shorter": (lambda a: a.gather(-1, of(a).tensor([[2], [0]])), (4, 3)),
    "index_add": (lambda a, b: a.index_add(0, of(a).tensor([2, 0, 2]), b), (3, 2), (3, 2)),
    "index_add -1": (lambda a, b: a.index_add(-1, of(a).tensor([1, 1]), b), (2, 3), (2, 2)),
    "index_add, nothing": (lambda a, b: a.index_add(1, of(a).tensor([0]), b)[:0], (2, 3), (2, 1)),
    "sort": (lambda a: a.sort()[0], (4, 3)),
    "sort 0": (lambda a: a.sort(0)[0], (5, 2)),
    "sort, ties": (
        lambda a: a.sort(dim=1, stable=True)[0] if of(a) is torch else a.sort(1)[0],
        TIES,
    ),
    "getitem, pairs": (lambda a: a[REPEATED, [0, 1, 0, 0]], (3, 2)),
}
