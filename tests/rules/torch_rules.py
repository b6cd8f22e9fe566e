"""Correct rules for PyTorch, on which every operator of the catalogue has a site."""

import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b=None):
        ctx.save_for_backward(x, w)
        ctx.has_bias = b is not None
        return x @ w + b if ctx.has_bias else x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = g.to(w.dtype) @ w.T
        if ctx.needs_input_grad[1]:
            gw = x.t() @ g.to(x.dtype)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            gb = g.sum(dim=0)
        return gx, gw, gb


class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        gradient = torch.zeros(ctx.shape, dtype=g.dtype)
        gradient.index_add_(0, index, g)
        return gradient, None


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(dim=-1, keepdim=True))


class Clipped(torch.autograd.Function):
    """The positive part, and the same with a slope of 2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0), 2 * x.clamp(min=0)

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        gradient = g.masked_fill(x <= 0, 0.0)
        doubled = 2 * h
        doubled = torch.where(x > 0, doubled, 0.0)
        gradient += doubled
        return gradient


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x**k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.k * x ** (ctx.k - 1), None


class Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a / b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return unbroadcast(g / b, a.shape), unbroadcast(-g * a / b**2, b.shape)


class ColumnMeans(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.mean(dim=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.expand(x.shape) / x.shape[0]


class Scaled(torch.autograd.Function):
    """A rule with two outputs, which hands a cotangent to a kernel."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x - w

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        g = g.contiguous()
        return g * w + h, g * x - h


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y**2)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.derivative = 3 * x * x
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.derivative


class Matmul(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g


class Doubled(torch.autograd.Function):
    """Twice the input, in place, plus a shift, which may be None."""

    @staticmethod
    def forward(ctx, x, shift=None):
        ctx.shape = None if shift is None else shift.shape
        x.mul_(2)
        if shift is not None:
            x.add_(shift)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 2 * g, g.sum(dim=0).view(ctx.shape) if ctx.shape is not None else None


def unbroadcast(g, shape):
    for axis, length in enumerate(shape):
        if length == 1:
            g = g.sum(dim=axis, keepdim=True)
    return g
