"""The cases of the truth: every op of minigrad on broad shapes, and at its kinks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from operator import add, itemgetter, matmul, methodcaller, mul, neg, sub, truediv
from typing import Any

import numpy as np

import minigrad as lib
from tests.adequacy.truth import Array, Case, Program

Shape = tuple[int, ...]


def all_cases() -> list[Case]:
    """Return the cases of all ops."""
    groups = (
        _binary,
        _where,
        _unary,
        _kinks,
        _matmul,
        _einsum,
        _reductions,
        _along_an_axis,
        _scores,
    )
    groups += (_movement, _joining, _indexing, _layers, _losses, _images, _modules)
    return [case for group in groups for case in group()]


def _case(name: str, program: Program, *leaves: Any, kink: bool = False) -> Case:
    """A case; a tuple stands for an array of that shape, drawn from the name."""
    rng = np.random.default_rng([*name.encode()])
    arrays = (
        rng.standard_normal(leaf) if isinstance(leaf, tuple) else np.array(leaf, float)
        for leaf in leaves
    )
    return Case(name, program, tuple(arrays), kink)


def _fixed(shape: Shape, seed: int = 0) -> Array:
    """Numbers of both signs, away from 0."""
    rng = np.random.default_rng([seed, *shape])
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 2, shape)


def _with_constant(program: Program, position: int, value: Any, *tensors: Any) -> Any:
    """The program with a constant as one of its operands."""
    operands = list(tensors)
    operands.insert(position, value)
    return program(*operands)


def _constants(name: str, program: Program, shapes: Sequence[Shape]) -> Iterator[Case]:
    """One case for each operand, in which it is a constant."""
    for i, shape in enumerate(shapes):
        bound = partial(_with_constant, program, i, _fixed(shape))
        others = [*shapes[:i], *shapes[i + 1 :]]
        yield _case(f"{name}, operand {i} constant", bound, *others)


# ----- Elementwise, and choices -----

PAIRS: list[tuple[Shape, Shape]] = [
    *[((), ()), ((1,), ()), ((3,), ()), ((2, 3), ()), ((3,), (3,)), ((2, 3), (2, 3))],
    *[((1,), (3,)), ((1,), (2, 3)), ((1, 1), (2, 3)), ((1,), (1, 1))],
    *[((3,), (2, 3)), ((3,), (2, 2, 3)), ((3,), (1, 3)), ((2, 3), (2, 1, 2, 3))],
    *[((2, 1), (2, 3)), ((1, 3), (2, 3)), ((2, 1, 3), (2, 4, 3)), ((1, 2, 1), (3, 2, 2))],
    *[((3, 1), (2, 3, 2)), ((1, 3), (2, 4, 3)), ((1, 1), (2, 2, 3))],
    *[((3, 1), (4,)), ((2, 1), (1, 3)), ((2, 1, 3), (4, 1)), ((3, 1, 1), (2, 1))],
    *[((3,), (0, 3)), ((1,), (0,)), ((2, 1), (2, 0)), ((0, 3), (0, 3)), ((0, 1), (1, 3))],
]
"""Equal shapes, scalars, created axes, stretched ones, both, both operands, and no elements."""

BOTH_WAYS = sorted({pair[::order] for pair in PAIRS for order in (1, -1)})

BINARY: dict[str, Program] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": truediv,
    "maximum": lib.maximum,
    "minimum": lib.minimum,
    "silu": lib.silu,
}


def _binary() -> Iterator[Case]:
    for name, program in BINARY.items():
        for one, other in BOTH_WAYS:
            yield _case(f"{name} {one} {other}", program, _fixed(one, 1), _fixed(other, 2))
        yield from _constants(name, program, [(2, 3), (3,)])
        leaf, row = _fixed((2, 3), 3), _fixed((3,), 4)
        yield _case(f"{name} of a leaf and itself", lambda a, f=program: f(a, a), leaf)
        yield _case(f"{name} of a row twice", lambda a, b, f=program: f(f(b, a), b), leaf, row)


def _where() -> Iterator[Case]:
    for one, other in BOTH_WAYS:
        shape = np.broadcast_shapes(one, other)
        mask = np.arange(math.prod(shape)).reshape(shape) % 3 == 0
        for where, condition in (("", mask), (", wider condition", np.stack([mask, ~mask]))):
            yield _case(
                f"where {one} {other}{where}",
                lambda a, b, c=condition: lib.where(c, a, b),
                *(one, other),
            )
    mask = np.array([[True, False, True], [False, True, False]])
    yield _case("where of a leaf and itself", lambda a: lib.where(mask, a, a), (2, 3))
    for part in (mask, mask[0], mask[:, :1]):
        name = f"masked_fill by {part.shape}"
        yield _case(name, methodcaller("masked_fill", part, 2.0), (2, 3))


SINGLE: list[Shape] = [(), (1,), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)]

UNARY: dict[str, Program] = {
    "neg": neg,
    **{name: methodcaller(name) for name in ("exp", "tanh", "sigmoid", "relu", "abs")},
    "gelu": lib.gelu,
    "gelu_tanh": lambda a: lib.gelu(a, "tanh"),
    "clamp": methodcaller("clamp", -1, 1),
    "clamp from below": methodcaller("clamp", min=-1),
    "clamp from above": methodcaller("clamp", max=1),
    "softplus": lambda a: lib.losses.binary_cross_entropy_with_logits(
        a, lib.Tensor(np.zeros(a.shape)), "sum"
    ),
    **{f"pow {e}": methodcaller("pow", e) for e in (0, 1, 2, 3, -1, -2)},
}
"""Functions of any numbers but 0."""

OF_POSITIVES: dict[str, Program] = {
    "log": methodcaller("log"),
    "sqrt": methodcaller("sqrt"),
    **{f"pow {e}": methodcaller("pow", e) for e in (0.5, -0.5, 1.5)},
}


def _unary() -> Iterator[Case]:
    for name, program in (UNARY | OF_POSITIVES).items():
        for shape in SINGLE:
            leaf = _fixed(shape)
            yield _case(f"{name} {shape}", program, abs(leaf) if name in OF_POSITIVES else leaf)
        yield _case(f"{name} of large numbers", program, [10.0, 20.5])
        yield _case(f"{name} used twice", lambda a, f=program: f(a) * f(a) + a, [0.3, 0.75])
    for name, program in UNARY.items():
        yield _case(f"{name} far out", program, [-5.0, -1.5, 0.25, 4.0, 30.0])
    for exponent in (0, 1, 2, 3):
        yield _case(f"pow {exponent} at 0", methodcaller("pow", exponent), [0.0, 1.0, -2.0])
    yield _case("to longdouble", methodcaller("to", np.longdouble), (2, 3))  # no digit is lost


def _kinks() -> Iterator[Case]:
    yield _case("relu at 0", methodcaller("relu"), [-1.0, 0.0, 2.0], kink=True)
    yield _case("abs at 0", methodcaller("abs"), [-1.0, 0.0, 2.0], kink=True)
    yield _case("clamp at bounds", methodcaller("clamp", -1, 1), [-1.0, 0.5, 1.0], kink=True)
    for name in ("maximum", "minimum"):
        for one, other in [
            ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
            ([[1.0, 2.0], [3.0, 0.0]], [1.0, 2.0]),
            ([[1.0], [2.0]], [[1.0, 2.0]]),
        ]:
            yield _case(f"{name}, ties {one} {other}", BINARY[name], one, other, kink=True)
    rows = np.array([[1.0, 3.0, 3.0], [0.0, 1.0, 5.0]])
    equal = np.full((2, 2), 2.0)
    for name, axis, keep in product(("max", "min"), (None, 0, 1, -1, -2, (0, 1)), (False, True)):
        for ties in (rows, equal):
            yield _case(
                f"{name}, ties {ties.shape} {axis} {keep}",
                methodcaller(name, axis, keep),
                ties if name == "max" else -ties,
                kink=True,
            )
    yield _case("norm at 0", methodcaller("norm", dim=1), [[0.0, 0.0], [3.0, 4.0]], kink=True)
    yield _case("norm at 0, all", methodcaller("norm"), [0.0, 0.0], kink=True)
    image = [[[[1.0, 2.0, 2.0], [2.0, 1.0, 2.0], [0.0, 2.0, 1.0]]]]
    yield _case("max_pool2d, ties", lib.nn.MaxPool2d(2, 1), image, kink=True)


# ----- Linear algebra -----

MATMULS: list[tuple[Shape, Shape]] = [
    *[((3,), (3,)), ((1,), (1,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4))],
    *[((3, 3), (3, 3)), ((1, 3), (3, 1)), ((2, 1), (1, 3)), ((1, 1), (1, 1))],
    *[((2,), (2, 2)), ((2, 2), (2,)), ((2,), (2, 2, 2)), ((2, 2, 2), (2,)), ((1, 2, 2), (2,))],
    *[((2, 2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 3, 1, 2), (2,)), ((2,), (2, 3, 2, 1))],
    *[((2, 2, 3), (2, 3, 2)), ((2, 2, 2), (2, 2, 2)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 4))],
    *[((1, 2, 3), (4, 3, 2)), ((4, 2, 3), (1, 3, 2)), ((2, 1, 2, 3), (3, 3, 2))],
    *[((2, 1, 1, 3), (1, 2, 3, 1)), ((0, 3), (3, 2)), ((2, 3), (3, 0)), ((2, 0), (0, 3))],
]
"""Vectors, matrices, batches, batches that broadcast, lengths that are equal, 1 or 0."""


REGULAR = np.array([[[3.0, 1.0], [-2.0, 2.0]], [[0.5, -2.0], [1.0, 4.0]]])

SOLVES = [
    *[(REGULAR[0], (2, 3)), (REGULAR[0], (2,)), (REGULAR, (2, 2, 1)), (REGULAR[1], (2, 2))],
    *[(REGULAR[0], (3, 2, 1)), (REGULAR, (2, 3)), (REGULAR[:, None], (3, 2, 2)), (REGULAR, (2,))],
]
"""Regular matrices, and the shape of the right side."""


def _matmul() -> Iterator[Case]:
    for shapes in MATMULS:
        yield _case(f"matmul {shapes}", matmul, *shapes)
        yield from _constants(f"matmul {shapes}", matmul, shapes)
    for shape in ((3,), (2, 2), (2, 3, 3)):
        yield _case(f"matmul of {shape} and itself", lambda a: a @ a, shape)
    yield _case("matmul with its transpose", lambda a: a @ a.T, (2, 3))
    for matrices, right in SOLVES:
        yield _case(f"solve {matrices.shape} {right}", lib.solve, matrices, right)
    yield _case("matmul of a matrix twice", lambda a, b: (b @ a) @ a, (3, 3), (2, 2, 3))


EINSUMS: list[tuple[str, list[Shape]]] = [
    *[("ij,jk->ik", [(2, 3), (3, 4)]), ("b a , a c -> b c", [(2, 3), (3, 2)])],
    *[("i,i->", [(3,), (3,)]), ("i,j->ij", [(2,), (3,)]), ("ij,i->j", [(2, 3), (2,)])],
    *[("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]), ("i->", [(1,)])],
    *[("ij,ik,il->jkl", [(2, 2), (2, 3), (2, 2)]), ("ij,k->k", [(2, 2), (3,)])],
    *[("ij,jk", [(2, 3), (3, 4)]), ("ba", [(2, 3)]), ("ba,cb", [(2, 3), (2, 2)])],
    *[("Ab,bC", [(2, 3), (3, 2)]), ("ii", [(3, 3)]), ("...i", [(2, 3)])],
    *[("ii->i", [(3, 3)]), ("ii->", [(3, 3)]), ("iij->ij", [(2, 2, 3)]), ("iji->j", [(2, 3, 2)])],
    *[("...ii->...i", [(2, 3, 3)]), ("i...->i", [(2, 3, 2)])],
    *[("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 2)]), ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)])],
    *[("...ij,jk", [(2, 2, 3), (3, 2)]), ("...i,...i->...", [(2, 3), (3,)])],
    *[("...i,...i", [(1, 3), (2, 3)]), ("i...,i...->...", [(2, 1, 3), (2, 4, 3)])],
    *[("ij,ij->i", [(1, 3), (2, 3)]), ("ij,ij->ij", [(2, 1), (2, 3)])],
    *[("a...,b...->ab...", [(2, 3), (2, 1)]), ("...,...->...", [(2, 1, 3), (2, 3)])],
    *[("...a,...b->...ba", [(2, 2), (1, 2, 3)]), ("...,i->i...", [(2, 3), (2,)])],
    *[("i...,...i->...", [(2, 3), (3, 2)]), ("i...,...->i", [(2, 3, 2), (2,)])],
]
"""Products, sums, diagonals, outputs without an arrow, ellipses, and lengths that broadcast."""


def _einsum() -> Iterator[Case]:
    for equation, shapes in EINSUMS:
        name, program = f"einsum {equation} {shapes}", partial(lib.einsum, equation)
        yield _case(name, program, *shapes)
        if len(shapes) > 1:
            yield from _constants(name, program, shapes)
    yield _case("einsum of a leaf twice", lambda a: lib.einsum("ij,kj->ik", a, a), (2, 3))
    yield _case("einsum of a leaf three times", lambda a: lib.einsum("ij,jk,ki", a, a, a), (2, 2))


# ----- Reductions -----

REDUCED: list[tuple[Shape, Any]] = [
    *[((), None), ((1,), None), ((4,), None), ((4,), 0), ((4,), -1), ((2, 3), None)],
    *[((2, 3), 0), ((2, 3), 1), ((2, 3), -1), ((2, 3), -2), ((2, 3), (0, 1)), ((2, 3), (-1,))],
    *[((3, 3), 0), ((3, 3), 1), ((2, 3, 2), 1), ((2, 3, 2), -2), ((2, 3, 2), (0, 2))],
    *[((2, 3, 2), (2, 0)), ((2, 3, 4), (-1, 0)), ((2, 3, 4), (1, 2)), ((2, 1, 3), 1), ((1, 3), 0)],
]
"""Shapes, and the axes that are reduced."""


def _count(shape: Shape, axis: Any) -> int:
    """How many elements make one of the result."""
    return math.prod(shape) // max(1, np.zeros(shape).sum(axis).size)


def _reductions() -> Iterator[Case]:
    names = ("sum", "mean", "var", "norm", "max", "min")
    for name, (shape, axis), keep in product(names, REDUCED, (False, True)):
        if name != "var" or _count(shape, axis) > 1:
            distinct = 1.0 + np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape)
            program = methodcaller(name, dim=axis, keepdim=keep)
            yield _case(f"{name} {shape} {axis} {keep}", program, distinct / 2)
    for correction, keep in product((0, 1, 1.5, 2), (False, True)):
        program = methodcaller("var", 1, correction=correction, keepdim=keep)
        yield _case(f"var with correction {correction} {keep}", program, (2, 4))
    for name, axis, keep in product(("sum", "mean"), (None, 0, (1, 2)), (False, True)):
        program = methodcaller(name, axis, keep)
        yield _case(f"{name} of nothing {axis} {keep}", program, (0, 2, 3))
    for name in names:
        program = methodcaller(name, dim=1, keepdim=True)
        yield _case(f"{name} beside its operand", lambda a, f=program: a * f(a), (2, 3))


CUMULATED: list[tuple[Shape, int]] = [
    *[((4,), 0), ((1,), 0), ((2, 3), 0), ((2, 3), 1), ((3, 3), -1), ((2, 3, 2), 1), ((0, 3), 0)],
]
"""Shapes, and the axis along which their elements are accumulated or sorted."""

WITH_ZEROS = [[[2.0, 0.0, -1.5], [0.0, 3.0, 0.0]], [[0.0, 0.0, 1.0], [1.5, 2.0, 0.0]]]


def _along_an_axis() -> Iterator[Case]:
    for shape, axis in CUMULATED:
        leaf = _fixed(shape)
        for name in ("cumsum", "cumprod"):
            yield _case(f"{name} {shape} {axis}", methodcaller(name, axis), leaf)
        distinct = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape) / 2
        yield _case(f"sort {shape} {axis}", lambda a, d=axis: a.sort(d)[0], distinct)
    for zeros, axis in product(WITH_ZEROS, (0, 1)):
        yield _case(f"cumprod of zeros {zeros} {axis}", methodcaller("cumprod", axis), zeros)
    for shape, axis in CUMULATED:
        yield _case(f"prod {shape} {axis}", methodcaller("prod", axis), _fixed(shape))
        yield _case(f"prod {shape} {axis} kept", methodcaller("prod", axis, True), _fixed(shape))
    for shape in SINGLE:
        yield _case(f"prod {shape}", methodcaller("prod"), _fixed(shape))
    for zeros, axis in product(WITH_ZEROS, (None, 0, 1)):
        yield _case(f"prod of zeros {zeros} {axis}", methodcaller("prod", axis), zeros)
    yield _case("prod beside its operand", lambda a: a + a.prod(0), (3,))
    yield _case("cumprod beside its operand", lambda a: a + a.cumprod(0), (3,))
    for shape, axis, places, length in [
        *[((4,), 0, [3, 1], 2), ((3, 2), 0, [2, 0, 2], 3), ((2, 3), 1, [1], 1)],
        *[((2, 3), -1, [1, 1, 1], 3), ((2, 3, 2), -2, [2, 0], 2), ((3, 3), 1, [2, 0, 1], 3)],
    ]:
        source = list(shape)
        source[axis] = length
        index = np.array(places)
        name, program = f"index_add {shape} {axis} {places}", _index_added(axis, index)
        yield _case(name, program, shape, tuple(source))
        constant = methodcaller("index_add", axis, index, _fixed(tuple(source)))
        yield _case(f"{name}, constant source", constant, shape)


def _index_added(axis: int, index: Array) -> Program:
    return lambda a, source: a.index_add(axis, index, source)


def _scores() -> Iterator[Case]:
    for shape, axis in REDUCED:
        for keep in (False, True):
            program = methodcaller("logsumexp", axis, keepdim=keep)
            yield _case(f"logsumexp {shape} {axis} {keep}", program, shape)
    for name in ("softmax", "log_softmax", "logsumexp"):
        program = methodcaller(name, -1)
        for shape, axis in REDUCED:
            if isinstance(axis, int) and name != "logsumexp":
                yield _case(f"{name} {shape} {axis}", methodcaller(name, axis), shape)
        yield _case(f"{name} of large scores", program, [[1000.0, 999.0, 998.5]])
        mask = np.array([[True, False, False], [False, False, True]])
        masked = methodcaller("masked_fill", mask, -50.0)
        yield _case(f"{name} of masked scores", lambda a, f=program, m=masked: f(m(a)), (2, 3))
    yield _case("softmax of nothing", methodcaller("softmax", 1), (0, 3))
    yield _case("logsumexp of nothing", lambda a: a.logsumexp(1).exp(), (2, 0))


# ----- Movement and indexing -----

MOVEMENTS: dict[str, list[tuple[Shape, Any]]] = {
    "reshape": [
        *[((), (1,)), ((), (1, 1)), ((1,), ()), ((6,), (2, 3)), ((2, 3), (3, 2)), ((2, 3), (-1,))],
        *[((2, 3), (2, 1, 3)), ((2, 1, 3), (6,)), ((3, 3), (9,)), ((0, 3), (3, 0))],
    ],
    "transpose": [
        *[((2, 3), (0, 1)), ((2, 3), (1, 0)), ((2, 3), (-1, -2)), ((3, 3), (0, 1)), ((3,), (0, 0))],
        *[((2, 3, 4), (0, 2)), ((2, 3, 4), (0, 1)), ((2, 3, 4), (1, -1)), ((2, 2, 2), (0, 2))],
        *[((2, 3, 2), (-1, 0)), ((2, 3), (0, 0)), ((2, 0, 3), (0, 2))],
    ],
    "permute": [
        *[((2, 3), (1, 0)), ((2, 3), (0, 1)), ((2, 3, 4), (1, 2, 0)), ((2, 3, 4), (2, 0, 1))],
        *[((2, 3, 4), (0, 2, 1)), ((2, 2, 2), (1, 2, 0)), ((2, 3, 4), (-1, 0, 1)), ((3,), (0,))],
        *[((2, 3, 4), (-2, -1, -3)), ((2, 1, 3, 2), (3, 1, 0, 2)), ((2, 2, 2), (-1, 0, 1))],
        *[((2, 1, 3, 2), (1, 3, 0, 2)), ((2, 2, 2), (1, -1, 0))],
    ],
    "expand": [
        *[((), (3,)), ((1,), (3,)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 3), (2, 3))],
        *[((3,), (-1,)), ((3, 1), (2, 3, 2)), ((2, 1), (-1, 3)), ((1, 1), (2, 3))],
        *[((2, 3), (2, 3)), ((1,), (0,)), ((3,), (1, 3)), ((1, 1), (2, 1)), ((3, 1), (2, -1, 4))],
    ],
    "flip": [
        *[((3,), (0,)), ((2, 3), (0,)), ((2, 3), (1,)), ((2, 3), (-1,)), ((2, 3), (0, 1))],
        *[((2, 3), ()), ((2, 2, 3), (0, -1))],
    ],
}
"""The shapes, and the arguments of the methods."""


def _movement() -> Iterator[Case]:
    for name, shapes in MOVEMENTS.items():
        for shape, arguments in shapes:
            unpacked = arguments if name == "transpose" else (arguments,)
            yield _case(f"{name} {shape} {arguments}", methodcaller(name, *unpacked), shape)
    for shape, widths in [
        *[((3,), (1, 2)), ((3,), (0, 0)), ((3,), (0, 1)), ((3,), (2, 0)), ((2, 3), (1, 2))],
        *[((2, 3), (1, 2, 3, 0)), ((2, 3), (0, 1, 2, 0)), ((2, 0), (1, 1)), ((2, 3), ())],
        *[((2, 2, 2), (1, 0, 2, 1, 0, 1))],
    ]:
        yield _case(f"pad {shape} {widths}", lambda a, w=widths: lib.pad(a, w, 2.0), shape)


def _joining() -> Iterator[Case]:
    for shapes, axis in [
        *[([(2,), (3,), (1,)], 0), ([(2,), (2,)], 0), ([(2, 3), (1, 3), (3, 3)], 0), ([(4,)], 0)],
        *[([(2, 1), (2, 3), (2, 2)], 1), ([(2, 1), (2, 3), (2, 2)], -1), ([(2, 3), (1, 3)], -2)],
        *[([(2, 0), (2, 3)], 1), ([(2, 2), (2, 2), (2, 2)], 1), ([(2, 1, 2), (2, 2, 2)], 1)],
    ]:
        program = _joined(lib.cat, axis)
        yield _case(f"cat {shapes} {axis}", program, *shapes)
        if len(shapes) > 1:
            yield from _constants(f"cat {shapes} {axis}", program, shapes)
    for shape, count, axis in [
        *[((), 3, 0), ((3,), 2, 0), ((3,), 2, 1), ((3,), 2, -1), ((3,), 3, 1), ((2, 3), 3, 1)],
        *[((2, 3), 2, 2), ((2, 3), 2, -1), ((2, 3), 2, -2), ((2, 2), 2, 1), ((3,), 1, 0)],
        *[((0,), 2, 0), ((3, 3), 3, 1), ((3, 3), 3, 2)],
    ]:
        program = _joined(lib.stack, axis)
        yield _case(f"stack {count} {shape} {axis}", program, *[shape] * count)
    yield _case("cat of a leaf twice", lambda a: lib.cat([a, a]), (2, 3))
    yield _case("stack of a leaf twice", lambda a: lib.stack([a, a], 1), (2, 3))


def _joined(function: Program, axis: int) -> Program:
    return lambda *tensors: function(tensors, axis)


INDICES: list[tuple[Shape, Any]] = [
    *[((4, 3), 1), ((4, 3), -1), ((4, 3), (1, 2)), ((4, 3), (slice(None), 1)), ((), ())],
    *[((4, 3), slice(1, 3)), ((5,), slice(None, None, 2)), ((4,), slice(None, None, -1))],
    *[((3,), None), ((2, 3, 2), (..., 0)), ((3,), slice(0, 0)), ((3,), np.zeros(0, int))],
    *[((3, 2), [2, 0, 2, 2]), ((4,), [3, 1]), ((3,), [0, -3, -1]), ((3,), [0, 0, 0])],
    *[((3, 2), np.array([2, 0, 2, 2])), ((3, 2), np.array([[0, 0], [1, 2]]))],
    *[((3,), np.array([1])), ((3,), np.array(1)), ((3, 3), ([0, 0, 1], [1, 1, 2]))],
    *[((3, 2), np.array([True, False, True])), ((2, 2), np.eye(2, dtype=bool))],
    *[((3, 4), (np.array([0, 0]), slice(1, 3))), ((3, 4), (slice(0, 2), [1, 1]))],
    *[((2, 3), (np.array([True, True]), [1, 1]))],
]
"""Integers, slices, new axes, masks, and arrays of integers with repetitions and without."""


def _indexing() -> Iterator[Case]:
    for number, (shape, index) in enumerate(INDICES):
        yield _case(f"index {number} of {shape}", itemgetter(index), shape)
    for shape, axis, places in [
        *[((2, 3), 1, [[0, 2], [1, 0]]), ((2, 3), 1, [[2, 2], [1, 0]]), ((4,), 0, [3, 3, 0])],
        *[((2, 3), -1, [[1, 1], [0, 2]]), ((3, 2), 1, [[0], [1]]), ((3, 2), 0, [[0, 2], [0, 1]])],
    ]:
        program = methodcaller("gather", axis, np.array(places))
        yield _case(f"gather {shape} {axis} {places}", program, shape)
    yield _case("a row among others", lambda a: a + a[0], (3, 2))


# ----- Layers and losses -----


def _layers() -> Iterator[Case]:
    for shape, wide in [
        *[((4, 3), 2), ((1, 3), 2), ((4, 3), 1), ((3,), 2), ((2, 2, 3), 4), ((3, 3), 3)],
        *[((0, 3), 2), ((1, 1), 1), ((1,), 3)],
    ]:
        shapes = [shape, (wide, shape[-1]), (wide,)]
        yield _case(f"linear {shapes}", _linear, *shapes)
        yield from _constants(f"linear {shapes}", _linear, shapes)
    for p, shape in product((0.25, 0.5, 0.0, 0.9), [(4, 5), (1,), (20,)]):
        yield _case(f"dropout {p} {shape}", lambda a, p=p: _dropout(p, a), shape)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    layer = lib.nn.Linear(weight.shape[1], weight.shape[0], rng=np.random.default_rng(0))
    layer.weight, layer.bias = weight, bias
    return layer(x)


def _dropout(p: float, x: Any) -> Any:
    return lib.nn.Dropout(p, rng=np.random.default_rng(0))(x)


def _modules() -> Iterator[Case]:
    """Layers with their parameters as leaves, beside the input."""
    nn, x = lib.nn, (4, 3)
    yield _module("Linear", lambda rng: nn.Linear(3, 2, rng=rng), x)
    yield _module("Linear without bias", lambda rng: nn.Linear(3, 2, bias=False, rng=rng), x)
    yield _module(
        "LowRankAdapter",
        lambda rng: nn.LowRankAdapter(nn.Linear(3, 2, rng=rng), 2, 4.0, rng=rng),
        x,
    )
    yield _module("Conv2d", lambda rng: nn.Conv2d(2, 3, 2, rng=rng), (2, 2, 3, 4))
    yield _module("LayerNorm", lambda _: nn.LayerNorm(3), x)
    yield _module("RMSNorm", lambda _: nn.RMSNorm(3), x)
    yield _module("BatchNorm1d", lambda _: nn.BatchNorm1d(3), x)
    yield _module("BatchNorm1d in evaluation", lambda _: nn.BatchNorm1d(3).eval(), x)
    for causal in (False, True):
        yield _module(
            f"MultiHeadAttention, causal {causal}",
            lambda rng, causal=causal: nn.MultiHeadAttention(4, 2, causal, rng=rng),
            (2, 3, 4),
        )
    yield _module("LSTMCell", lambda rng: nn.LSTMCell(3, 2, rng=rng), x, use=_two_steps)
    for padding in (None, 2):  # not the padding itself, whose gradient is dropped on purpose
        yield _module(
            f"Embedding, padding {padding}",
            lambda rng, padding=padding: nn.Embedding(4, 3, padding, rng=rng),
            use=_look_up,
        )


def _two_steps(layer: Any, x: Any) -> Any:
    h, c = layer(x, layer(x))
    return h * c


def _look_up(layer: Any) -> Any:
    return layer(np.array([[0, 1], [3, 3]]))


def _module(
    name: str,
    make: Callable[..., Any],
    *inputs: Shape,
    use: Program = lambda layer, x: layer(x),
) -> Case:
    def program(*leaves: Any) -> Any:
        layer = make(np.random.default_rng(0))
        slots = [
            (part, attribute)
            for part in layer.modules()
            for attribute, value in vars(part).items()
            if isinstance(value, lib.Tensor) and value.requires_grad
        ]
        for (part, attribute), leaf in zip(slots, leaves[len(inputs) :], strict=True):
            setattr(part, attribute, leaf)
        return use(layer, *leaves[: len(inputs)])

    shapes = [parameter.shape for parameter in make(np.random.default_rng(0)).parameters()]
    return _case(f"layer {name}", program, *inputs, *shapes)


def _losses() -> Iterator[Case]:
    targets = ([2, 0, 1, 1], [2], [2, -100, -100, 0], [-100, 1], [0, 0], [1, -100, 1])
    for reduction, target, classes in product(("mean", "sum"), targets, (3, 4)):
        yield _case(
            f"cross_entropy {reduction} {target} {classes}",
            _loss("cross_entropy", np.array(target), reduction=reduction),
            (len(target), classes),
        )
    ignored = _loss("cross_entropy", np.array([1, 0, 2, 1]), ignore_index=1)
    yield _case("cross_entropy ignoring 1", ignored, (4, 3))
    for name, shape in product(("mse", "mae", "huber"), [(4,), (2, 3), (1,)]):
        yield _case(f"{name} {shape}", _loss(name, _fixed(shape)), shape)
        yield _case(f"{name} {shape} of two leaves", _loss(name), shape, shape)
    binary = _loss("binary_cross_entropy_with_logits", np.array([1.0, 0.0, 0.5]))
    yield _case("binary_cross_entropy", binary, (3,))
    yield _case("kl_div", _loss("kl_div"), (2, 3), (2, 3))


def _loss(name: str, *target: Any, **options: Any) -> Program:
    return lambda *tensors: getattr(lib.losses, name)(*tensors, *target, **options)


def _images() -> Iterator[Case]:
    for image, kernels, stride, padding in [
        *[((1, 1, 4, 4), (1, 1, 2, 2), 1, 0), ((1, 1, 4, 4), (1, 1, 2, 2), 2, 0)],
        *[((1, 1, 3, 3), (1, 1, 3, 3), 1, 1), ((2, 2, 3, 4), (3, 2, 2, 2), 1, 0)],
        *[((2, 1, 4, 5), (2, 1, 2, 2), 2, 1), ((1, 2, 5, 4), (2, 2, 3, 3), 2, 1)],
        *[((1, 1, 5, 5), (1, 1, 2, 2), 3, 0), ((2, 3, 2, 2), (1, 3, 1, 1), 1, 0)],
        *[((2, 2, 2, 2), (2, 2, 2, 2), 1, 0), ((1, 1, 3, 4), (2, 1, 2, 2), 1, 2)],
        *[((2, 2, 4, 3), (3, 2, 2, 2), 1, 1)],
    ]:
        name = f"conv2d {image} {kernels} {stride} {padding}"
        yield _case(name, _convolution(stride, padding), image, kernels)
    for image, kernel, stride in [
        *[((1, 1, 4, 4), 2, 2), ((1, 1, 3, 3), 2, 1), ((2, 2, 4, 5), 2, 2), ((1, 2, 5, 4), 3, 1)],
        *[((2, 1, 5, 6), 2, 3), ((1, 1, 3, 3), 1, 1), ((1, 1, 6, 5), 3, 2), ((2, 3, 3, 4), 2, 1)],
    ]:
        name = f"max_pool2d {image} {kernel} {stride}"
        yield _case(name, lib.nn.MaxPool2d(kernel, stride), image)
    for image, kernel, stride, padding, counted in [
        *[
            ((1, 1, 4, 4), 2, 2, 0, True),
            ((2, 2, 4, 5), 2, 1, 0, True),
            ((1, 2, 5, 4), 3, 2, 1, True),
        ],
        *[((2, 1, 5, 6), 2, 3, 0, True), ((1, 1, 3, 3), 1, 1, 0, True)],
        *[
            ((1, 1, 3, 3), 3, 1, 1, False),
            ((2, 2, 5, 4), 3, 2, 1, False),
            ((1, 1, 4, 6), 2, 2, 1, False),
        ],
    ]:
        name = f"avg_pool2d {image} {kernel} {stride} {padding} {counted}"
        yield _case(name, lib.nn.AvgPool2d(kernel, stride, padding, counted), image)


def _convolution(stride: int, padding: int) -> Program:
    def program(x: Any, weight: Any) -> Any:
        sizes = (weight.shape[1], weight.shape[0], weight.shape[2], stride, padding)
        layer = lib.nn.Conv2d(*sizes, rng=np.random.default_rng(0))
        layer.weight = weight
        return layer(x)

    return program
