"""Layers with weights, and activations. Weights have PyTorch's shapes and initial values."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from minigrad import layer_ops
from minigrad.functions import gelu, where
from minigrad.nn.initialisers import uniform_fan_in
from minigrad.nn.module import Module
from minigrad.tensor import Tensor, apply
from minigrad.types import Array


class Linear(Module):
    """`x @ weight.T + bias`: (..., in_features) -> (..., out_features).

    `weight` has shape (out_features, in_features) and `bias` (out_features,), or None. Both start
    uniform in ±1/sqrt(in_features), as in `torch.nn.Linear`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the parameters from `rng`, the weight first."""
        weight = uniform_fan_in((out_features, in_features), in_features, rng=rng)
        self.weight = Tensor(weight, requires_grad=True, dtype=dtype)
        self.bias: Tensor | None = None
        if bias:
            offset = uniform_fan_in((out_features,), in_features, rng=rng)
            self.bias = Tensor(offset, requires_grad=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to the last axis of `x`."""
        if self.bias is None:
            return x @ self.weight.T
        wanted = isinstance(x, Tensor) and x.requires_grad
        return apply(layer_ops.linear, x, self.weight, self.bias, wanted=wanted)


class LowRankAdapter(Module):
    """A frozen linear layer plus a trained product of two thin matrices, `up @ down`, scaled.

    `down` has shape (rank, in_features) and starts as a linear layer's weight does; `up` has shape
    (out_features, rank) and starts at 0, so that the output is that of `base` at first. Both have
    `base`'s dtype. Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021.
    """

    def __init__(
        self, base: Linear, rank: int, alpha: float = 1.0, *, rng: np.random.Generator
    ) -> None:
        """Freeze `base`, and draw `down` from `rng`."""
        for parameter in base.parameters():
            parameter.requires_grad = False
        rows, columns = base.weight.shape
        down, dtype = uniform_fan_in((rank, columns), columns, rng=rng), base.weight.dtype
        self.base, self.scale = base, alpha / rank
        self.down = Tensor(down, requires_grad=True, dtype=dtype)
        self.up = Tensor(np.zeros((rows, rank)), requires_grad=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        output: Tensor = self.base(x) + x @ self.down.T @ self.up.T * self.scale
        return output

    def merge(self) -> None:
        """Add the product to the weight of `base`, and set `up` to 0: the output is the same."""
        update = self.up.data @ self.down.data * self.scale
        self.base.weight.data = self.base.weight.data + update
        self.up.data = np.zeros_like(self.up.data)


class Embedding(Module):
    """A learned vector for each of `count` symbols: integers (...) -> (..., features).

    `weight` has shape (count, features) and starts standard normal, as in `torch.nn.Embedding`. The
    vector of the symbol `padding_idx` starts at 0 and gets no gradient.
    """

    def __init__(
        self,
        count: int,
        features: int,
        padding_idx: int | None = None,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the vectors from `rng`."""
        weight = rng.standard_normal((count, features))
        if padding_idx is not None:
            weight[padding_idx] = 0
        self.weight = Tensor(weight, requires_grad=True, dtype=dtype)
        self.padding_idx = padding_idx

    def forward(self, symbols: Tensor | Array) -> Tensor:
        """Look up the vectors. Raises IndexError for a symbol outside 0 ... count - 1."""
        symbols, count = np.asarray(symbols), len(self.weight)
        if ((symbols < 0) | (symbols >= count)).any():  # a negative index would count from the end
            raise IndexError(
                f"symbols from {symbols.min()} to {symbols.max()}, but only 0 to {count - 1} have "
                "a vector"
            )
        vectors = self.weight[symbols]
        if self.padding_idx is not None:
            padding = (symbols == self.padding_idx % count)[..., None]
            vectors = where(padding, vectors.detach(), vectors)
        return vectors


class Conv2d(Module):
    """Kernels moved over images: (n, in_channels, h, w) -> (n, out_channels, h', w').

    For kernels of side `kernel`, `h' = (h + 2 * padding - kernel) // stride + 1`. `weight` has
    shape (out_channels, in_channels, kernel, kernel) and `bias` (out_channels,); both start uniform
    in ±1/sqrt(in_channels * kernel**2), as in `torch.nn.Conv2d`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the parameters from `rng`, the weight first."""
        fan_in = in_channels * kernel**2
        weight = uniform_fan_in((out_channels, in_channels, kernel, kernel), fan_in, rng=rng)
        bias = uniform_fan_in((out_channels,), fan_in, rng=rng)
        self.weight = Tensor(weight, requires_grad=True, dtype=dtype)
        self.bias = Tensor(bias, requires_grad=True, dtype=dtype)
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """Apply the kernels. Raises ValueError for other channels or an image that is too small."""
        options = {"stride": self.stride, "padding": self.padding}
        return apply(layer_ops.conv2d, x, self.weight, **options) + self.bias.reshape(-1, 1, 1)


class MaxPool2d(Module):
    """The largest value in each window: (n, channels, h, w) -> (n, channels, h', w').

    `h' = (h - kernel) // stride + 1`, where `stride` is `kernel` unless it is given.
    """

    def __init__(self, kernel: int, stride: int | None = None) -> None:
        self.kernel, self.stride = kernel, stride or kernel

    def forward(self, x: Tensor) -> Tensor:
        """Pool the last two axes."""
        return apply(layer_ops.max_pool2d, x, kernel=self.kernel, stride=self.stride)


class AvgPool2d(Module):
    """The mean of each window: (n, channels, h, w) -> (n, channels, h', w').

    `h' = (h + 2 * padding - kernel) // stride + 1`, where `stride` is `kernel` unless it is given.
    The zeros of the padding are part of the mean only if `count_include_pad`, as in PyTorch.
    """

    def __init__(
        self,
        kernel: int,
        stride: int | None = None,
        padding: int = 0,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel, self.stride = kernel, stride or kernel
        self.padding, self.count_include_pad = padding, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Pool the last two axes."""
        options = {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}
        return apply(layer_ops.avg_pool2d, x, **options, counted=self.count_include_pad)


class Dropout(Module):
    """In training, each element becomes 0 with probability `p`, else is divided by `1 - p`.

    This preserves the mean, so evaluation leaves the input unchanged. Raises ValueError unless 0 <=
    p < 1. Source: see `layer_ops.dropout`.
    """

    def __init__(self, p: float = 0.5, *, rng: np.random.Generator) -> None:
        """The masks of later calls are drawn from `rng`."""
        if not 0 <= p < 1:
            raise ValueError(f"p is {p}: dropout needs a probability from 0 to below 1")
        self.p = p
        self.rng = rng

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements in training, do nothing in evaluation."""
        if not self.training:
            return x
        kept = self.rng.random(x.shape) >= self.p
        return apply(layer_ops.dropout, x, kept=kept, p=float(self.p))


class LSTMCell(Module):
    """One step of a long short-term memory, with PyTorch's weights and order of gates.

    `weight_ih` has shape (4 * hidden, features), `weight_hh` (4 * hidden, hidden), both biases
    (4 * hidden,), for the input, forget, cell and output gate. All start uniform in
    ±1/sqrt(hidden). Sources: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; the forget
    gate: Gers et al., Learning to Forget, 2000.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> None:
        """Draw the parameters from `rng`, in the order of the attributes."""

        def parameter(*shape: int) -> Tensor:
            return Tensor(uniform_fan_in(shape, hidden, rng=rng), requires_grad=True, dtype=dtype)

        self.hidden = hidden
        self.weight_ih = parameter(4 * hidden, features)
        self.weight_hh = parameter(4 * hidden, hidden)
        self.bias_ih = parameter(4 * hidden)
        self.bias_hh = parameter(4 * hidden)

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """(batch, features) and (h, c), both (batch, hidden), initially 0 -> the next (h, c)."""
        if state is None:
            nothing = Tensor(np.zeros((len(x), self.hidden), x.dtype))
            state = nothing, nothing
        h, c = state
        gates = x @ self.weight_ih.T + self.bias_ih + h @ self.weight_hh.T + self.bias_hh
        parts = gates.reshape(-1, 4, self.hidden)
        input_gate = parts[:, 0].sigmoid()
        forget_gate = parts[:, 1].sigmoid()
        candidate = parts[:, 2].tanh()
        output_gate = parts[:, 3].sigmoid()
        c = forget_gate * c + input_gate * candidate
        return output_gate * c.tanh(), c


# ----- Activations -----


class ReLU(Module):
    """Elementwise maximum with 0."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.relu()


class Tanh(Module):
    """Elementwise hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.tanh()


class Sigmoid(Module):
    """Elementwise logistic function, `1 / (1 + exp(-x))`."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.sigmoid()


class GELU(Module):
    """Elementwise x times the normal distribution function at x; "tanh" approximates it."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return gelu(x, self.approximate)
