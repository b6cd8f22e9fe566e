"""HIPS autograd under PyTorch's names, so that it runs the probes' source: an independent oracle.

Every derivative is HIPS's. A tensor holds a box of `autograd.numpy`, an op is a function of
`autograd.numpy` or a composition of several, and the walk is HIPS's `backward_pass`, down to leaves
that store their cotangent; a graph can be walked any number of times. Features that HIPS lacks are
missing here too: ops in place, gradients of interior nodes, layers and optimizers.

A gradient is evidence only where it must be right. Elsewhere NotImplementedError is raised:

- at a kink, a tie or NaN in `relu`, `abs`, `clamp`, `norm`, `max`, `min`, `maximum` and `minimum`:
  several gradients are valid there, and HIPS's choice is not always PyTorch's (`maximum(a, 0)` has
  slope 1/2 at 0, the length of a vector of zeros has NaN);
- where a leaf's gradient is not finite: HIPS multiplies by masks, so 0 times infinity gives NaN
  where other libraries select;
- where `einsum` stretches a letter of length 1: the cotangent is not stretched, and so is wrong;
- where a gradient does not have its leaf's shape.

Other defects of autograd 1.9.1 are worked around. `where` does not sum over the copies of an
operand: its operands are stretched first. `broadcast_to` cannot create axes: stretching multiplies
by ones. `transpose` inverts negative axes wrongly: they are counted from the front. `flip` has no
rule: it is a slice. Some rules return float64 for float32: the leaf rounds.
"""
# ruff: noqa: A002 - PyTorch's names; no builtin of these names is used here

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, reduce, wraps
from itertools import accumulate, pairwise
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.core import VJPNode, backward_pass
from autograd.tracer import getval, isbox, new_box
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike, DTypeLike, NDArray

NumericArray = NDArray[Any]

Traced = Any
"""What `autograd.numpy` computes with: a box if it requires a gradient, else an array or number."""

_recording = ContextVar("recording", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Disable tracing inside the block."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def _on_tensors(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return an op on HIPS's boxes as an op on tensors, also those in lists and tuples."""

    @wraps(op)
    def method(*operands: Any, **options: Any) -> Any:
        opened = {name: _opened(option) for name, option in options.items()}
        with np.errstate(all="ignore"):  # values are compared, and NaN gradients are refused
            return _wrapped(op(*map(_opened, operands), **opened))

    return method


def _opened(operand: Any) -> Traced:
    if isinstance(operand, Tensor):
        return operand.box if _recording.get() else operand.data
    return type(operand)(map(_opened, operand)) if isinstance(operand, tuple | list) else operand


def _wrapped(value: Any) -> Any:
    """Return results as tensors, but comparisons as arrays of booleans: they have no derivative."""
    if isinstance(value, tuple):
        return tuple(map(_wrapped, value))
    if not isbox(value) and np.asarray(value).dtype == np.bool_:
        return np.asarray(value)
    out = Tensor.__new__(Tensor)
    out.box, out.grad = value, None
    return out


# ----- Ops that autograd.numpy lacks or gets wrong -----


def _decline_unless(unique: NumericArray, *operands: Traced) -> None:
    """Raise NotImplementedError if a derivative is required and is not `unique` everywhere."""
    if any(map(isbox, operands)) and not np.all(unique):
        raise NotImplementedError(
            "at a kink, a tie or NaN the derivative is a convention: HIPS autograd is not used"
        )


def _choice(op: Callable[..., Traced], a: Traced, b: Traced) -> Traced:
    _decline_unless((a < b) | (a > b), a, b)
    return op(a, b)


_maximum, _minimum = partial(_choice, anp.maximum), partial(_choice, anp.minimum)


def _clamp(a: Traced, min: float | None = None, max: float | None = None) -> Traced:
    a = a if min is None else _maximum(a, min)
    return a if max is None else _minimum(a, max)


def _extreme(
    op: Callable[..., Traced], a: Traced, dim: Any = None, keepdim: bool = False
) -> Traced:
    value = op(a, _axes(dim), keepdims=True)
    _decline_unless((a == value).sum(_axes(dim)) == 1, a)
    return value if keepdim else anp.squeeze(value, _axes(dim))


def _norm(a: Traced, *, dim: Any = None, keepdim: bool = False) -> Traced:
    value = anp.sqrt(anp.sum(a * a, _axes(dim), keepdims=keepdim))
    _decline_unless(value > 0, a)
    return value


def _largest(a: Traced, dim: Any) -> NumericArray:
    """Return the largest scores, as constants: they cancel, also in the derivative."""
    return np.asarray(np.max(getval(a), _axes(dim), keepdims=True, initial=-np.inf))


def _logsumexp(a: Traced, dim: Any, keepdim: bool = False) -> Traced:
    largest = _largest(a, dim)
    shift = np.where(np.isfinite(largest), largest, 0)
    value = anp.log(anp.sum(anp.exp(a - shift), _axes(dim), keepdims=True)) + shift
    return value if keepdim else anp.squeeze(value, _axes(dim))


def _log_softmax(a: Traced, dim: int) -> Traced:
    shifted = a - _largest(a, dim)
    return shifted - anp.log(anp.sum(anp.exp(shifted), dim, keepdims=True))


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, Sequence) else dim


def _where(condition: NumericArray, input: Traced, other: Traced) -> Traced:
    shape = np.broadcast_shapes(*map(anp.shape, (condition, input, other)))
    operands = [_expand(x, shape) if isbox(x) else x for x in (input, other)]
    return anp.where(condition, *operands)


def _expand(a: Traced, *shape: Any) -> Traced:
    wanted, old = _unpacked(shape), anp.shape(a)
    aligned = (1,) * (len(wanted) - len(old)) + old
    lengths = [own if new == -1 else new for new, own in zip(wanted, aligned, strict=True)]
    return a * np.ones(lengths, anp.result_type(a))


def _permute(a: Traced, *dims: Any) -> Traced:
    return anp.transpose(a, normalize_axis_tuple(_unpacked(dims), anp.ndim(a)))


def _squeeze(a: Traced, dim: Any = None) -> Traced:
    axes = range(anp.ndim(a)) if dim is None else normalize_axis_tuple(dim, anp.ndim(a))
    return anp.reshape(a, [n for i, n in enumerate(anp.shape(a)) if n != 1 or i not in axes])


def _flip(a: Traced, *dims: Any) -> Traced:
    axes = normalize_axis_tuple(_unpacked(dims), anp.ndim(a))
    return a[tuple(slice(None, None, -1 if i in axes else 1) for i in range(anp.ndim(a)))]


def _gather(a: Traced, dim: int, index: NumericArray) -> Traced:
    places: list[NumericArray] = list(np.indices(np.shape(index), sparse=True))
    places[dim] = index
    return a[tuple(places)]


def _pieces(a: Traced, dim: int) -> list[Traced]:
    """Return the slices along an axis, each of length one."""
    before = (slice(None),) * (dim % anp.ndim(a))
    return [a[(*before, slice(i, i + 1))] for i in range(anp.shape(a)[dim])]


def _prod(a: Traced, dim: int | None = None, keepdim: bool = False) -> Traced:
    """Multiply piece by piece, as HIPS's rule divides by the elements."""
    pieces = _pieces(anp.reshape(a, -1), 0) if dim is None else _pieces(a, dim)
    if not pieces:
        return anp.prod(a, dim, keepdims=keepdim)
    value = reduce(operator.mul, pieces)
    return value if keepdim else anp.squeeze(value, dim or 0)


def _cumprod(a: Traced, dim: int) -> Traced:
    pieces = _pieces(a, dim)
    return anp.concatenate([*accumulate(pieces, operator.mul)], dim) if pieces else a


def _index_add(a: Traced, dim: int, index: NumericArray, source: Traced) -> Traced:
    """Add slice by slice, so that a slice that is infinite stays in its place."""
    places = np.indices(anp.shape(a))[dim]
    for place, piece in zip(np.asarray(index), _pieces(source, dim), strict=True):
        a = a + _where(places == place, piece, 0.0)
    return a


def _sort(a: Traced, dim: int = -1) -> tuple[Traced, NumericArray]:
    order = np.argsort(getval(a), dim, kind="stable")
    return _gather(a, dim, order), order


def _split(a: Traced, split_size: Any, dim: int = 0) -> tuple[Traced, ...]:
    length = anp.shape(a)[dim]
    listed = isinstance(split_size, Sequence)
    ends = [*accumulate(split_size)] if listed else [*range(split_size, length, split_size), length]
    before = (slice(None),) * (dim % anp.ndim(a))
    return tuple(a[(*before, slice(*piece))] for piece in pairwise([0, *ends]))


def _unpacked(arguments: Sequence[Any]) -> Sequence[int]:
    """PyTorch takes `f(2, 3)` and `f((2, 3))` alike."""
    return arguments[0] if arguments and isinstance(arguments[0], Sequence) else arguments


# ----- Tensors -----


class Tensor:
    """A box in the graph, or an array outside it. `data` is copied.

    `grad` is an array of the tensor's shape and dtype, or None before the first `backward()`.
    Raises TypeError for a leaf that is neither float64 nor float32.
    """

    __array_ufunc__ = None  # lets `array + tensor` reach Tensor.__radd__

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
    ) -> None:
        """A new leaf."""
        self.box: Traced = np.array(data, dtype)
        self.grad: NumericArray | None = None
        if requires_grad:
            if self.box.dtype not in (np.float64, np.float32):
                raise TypeError(f"a leaf is float64 or float32, and this one is {self.box.dtype}")
            node = VJPNode.new_root()
            node.vjp = self._receive
            self.box = new_box(self.box, 0, node)  # HIPS numbers nested traces; we have one

    def _receive(self, cotangent: ArrayLike) -> tuple[()]:
        """The rule of a leaf's node: store the complete cotangent, and return none."""
        arrived = np.asarray(cotangent)
        if arrived.shape != self.shape:
            raise NotImplementedError(
                f"HIPS autograd's gradient is {arrived.shape}, its leaf {self.shape}"
            )
        if not np.isfinite(arrived).all():
            raise NotImplementedError("HIPS autograd's gradient is not finite here")
        arrived = arrived.astype(self.dtype)  # a copy, since the cotangent may be the caller's
        self.grad = arrived if self.grad is None else self.grad + arrived
        return ()

    def backward(
        self,
        cotangent: ArrayLike | None = None,
        retain_graph: bool = False,  # noqa: ARG002 - HIPS always does
    ) -> None:
        """Add the gradients of this tensor, weighted by `cotangent`, to the leaves' `grad`.

        `cotangent` has the tensor's shape, and is optional for a tensor of one element. Raises
        RuntimeError for another shape and if there is nothing to differentiate, and
        NotImplementedError as the module's docstring says.
        """
        start = np.asarray(np.ones(self.shape) if cotangent is None else cotangent, self.dtype)
        if start.shape != self.shape or (cotangent is None and start.size != 1):
            raise RuntimeError(f"a tensor of shape {self.shape} needs a cotangent of that shape")
        if not self.requires_grad:
            raise RuntimeError("this was computed from nothing that requires a gradient")
        with np.errstate(all="ignore"):  # non-finite gradients are refused
            backward_pass(start, self.box._node)

    # ----- As an array -----

    data = property(lambda self: np.asarray(getval(self.box)))
    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: self.data.ndim)
    dtype = property(lambda self: self.data.dtype)
    requires_grad = property(lambda self: isbox(self.box))
    is_leaf = property(lambda self: not (isbox(self.box) and self.box._node.parents))

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def numpy(self) -> NumericArray:
        """The values."""
        return np.asarray(self.data)

    def item(self) -> Any:
        """The only element, as a Python number. Raises ValueError if there are more."""
        return self.data.item()

    def detach(self) -> Tensor:
        """The same values, outside the graph."""
        return Tensor(self.data)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NumericArray:
        """For `np.asarray(tensor)`."""
        return np.array(self.data, dtype, copy=copy)

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.data)

    def __bool__(self) -> bool:
        """The truth of the only element."""
        return bool(self.data)

    # ----- Elementwise -----

    __add__, __radd__ = _on_tensors(anp.add), _on_tensors(lambda a, b: anp.add(b, a))
    __sub__, __rsub__ = _on_tensors(anp.subtract), _on_tensors(lambda a, b: anp.subtract(b, a))
    __mul__, __rmul__ = _on_tensors(anp.multiply), _on_tensors(lambda a, b: anp.multiply(b, a))
    __truediv__, __rtruediv__ = _on_tensors(anp.divide), _on_tensors(lambda a, b: anp.divide(b, a))
    __neg__ = _on_tensors(anp.negative)
    __pow__ = pow = _on_tensors(anp.power)
    exp, log, sqrt, tanh = map(_on_tensors, (anp.exp, anp.log, anp.sqrt, anp.tanh))
    sigmoid = _on_tensors(lambda a: anp.exp(-anp.logaddexp(0.0, -a)))  # never overflows
    relu = _on_tensors(lambda a: _maximum(a, 0))
    abs = _on_tensors(lambda a: _maximum(a, -a))
    clamp = clip = _on_tensors(_clamp)
    maximum, minimum = _on_tensors(_maximum), _on_tensors(_minimum)
    masked_fill = _on_tensors(lambda a, mask, value: _where(mask, value, a))
    to = _on_tensors(lambda a, dtype: a.astype(dtype))

    __lt__, __le__ = _on_tensors(anp.less), _on_tensors(anp.less_equal)
    __gt__, __ge__ = _on_tensors(anp.greater), _on_tensors(anp.greater_equal)
    eq, ne = _on_tensors(anp.equal), _on_tensors(anp.not_equal)

    # ----- Reductions, and products of matrices -----

    sum = _on_tensors(lambda a, dim=None, keepdim=False: anp.sum(a, _axes(dim), keepdims=keepdim))
    mean = _on_tensors(lambda a, dim=None, keepdim=False: anp.mean(a, _axes(dim), keepdims=keepdim))
    var = _on_tensors(
        lambda a, dim=None, *, correction=1, keepdim=False: anp.var(
            a, _axes(dim), ddof=correction, keepdims=keepdim
        )
    )
    prod, norm = _on_tensors(_prod), _on_tensors(_norm)
    max = amax = _on_tensors(partial(_extreme, anp.max))
    min = amin = _on_tensors(partial(_extreme, anp.min))
    logsumexp, log_softmax = _on_tensors(_logsumexp), _on_tensors(_log_softmax)
    softmax = _on_tensors(lambda a, dim: anp.exp(_log_softmax(a, dim)))
    matmul = __matmul__ = _on_tensors(anp.matmul)
    __rmatmul__ = _on_tensors(lambda a, b: anp.matmul(b, a))

    # ----- Movement and indexing -----

    reshape = view = _on_tensors(lambda a, *shape: anp.reshape(a, _unpacked(shape)))
    transpose = _on_tensors(lambda a, dim0, dim1: anp.swapaxes(a, dim0, dim1))
    permute = _on_tensors(_permute)
    T = property(_on_tensors(anp.transpose))
    mT = property(_on_tensors(lambda a: anp.swapaxes(a, -2, -1)))  # noqa: N815 - PyTorch's name
    expand, squeeze, flip = map(_on_tensors, (_expand, _squeeze, _flip))
    unsqueeze = _on_tensors(lambda a, dim: anp.expand_dims(a, dim))
    __getitem__ = _on_tensors(lambda a, index: a[index])
    gather, split, sort = _on_tensors(_gather), _on_tensors(_split), _on_tensors(_sort)
    cumsum = _on_tensors(lambda a, dim: anp.cumsum(a, dim))
    cumprod, index_add = _on_tensors(_cumprod), _on_tensors(_index_add)


# ----- Functions -----

tensor = Tensor
where, maximum, minimum = _on_tensors(_where), _on_tensors(_maximum), _on_tensors(_minimum)
cat = concatenate = _on_tensors(lambda tensors, dim=0: anp.concatenate(tensors, dim))
stack = _on_tensors(lambda tensors, dim=0: anp.stack(tensors, dim))


@_on_tensors
def einsum(equation: str, *operands: Traced) -> Traced:
    """Like `numpy.einsum`. Raises NotImplementedError if a letter has two lengths."""
    lengths = set()
    for term, operand in zip(equation.partition("->")[0].split(","), operands, strict=True):
        before, _, after = term.replace(" ", "").partition("...")
        shape = anp.shape(operand)
        lengths |= {*zip(before, shape, strict=False), *zip(after[::-1], shape[::-1], strict=False)}
    if len(lengths) > len(dict(lengths)):
        raise NotImplementedError("HIPS autograd's cotangent of a stretched letter is wrong")
    return anp.einsum(equation, *operands)


@_on_tensors
def pad(input: Traced, pad: Sequence[int], value: float = 0.0) -> Traced:
    """Pad with a constant, as `torch.nn.functional.pad` does: `pad` starts with the last axis."""
    pairs = [*zip(pad[::2], pad[1::2], strict=True)]
    widths = [(0, 0)] * (anp.ndim(input) - len(pairs)) + pairs[::-1]
    return anp.pad(input, widths, "constant", constant_values=value)


@_on_tensors
def silu(input: Traced, beta: Traced = 1.0) -> Traced:
    """`input` times the logistic function of `beta * input`."""
    return input * anp.exp(-anp.logaddexp(0.0, -beta * input))


@_on_tensors
def solve(A: Traced, B: Traced) -> Traced:  # noqa: N803 - PyTorch's names
    """Like `torch.linalg.solve`, where a `B` with one axis is the only vector."""
    if anp.ndim(B) > 1:
        return anp.linalg.solve(A, B)
    return anp.linalg.solve(A, B[:, None])[..., 0]


@_on_tensors
def gelu(input: Traced, approximate: str = "none") -> Traced:
    """Like `torch.nn.functional.gelu`; raises NotImplementedError for the exact form."""
    if approximate != "tanh":
        raise NotImplementedError('autograd.numpy has no error function: approximate="tanh"')
    return input * (1 + anp.tanh((2 / np.pi) ** 0.5 * (input + 0.044715 * input**3))) / 2


def __getattr__(name: str) -> Any:
    raise AttributeError(f"HIPS autograd has no `{name}`")
