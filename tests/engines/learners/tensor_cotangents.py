"""Cotangents are tensors, with annotations: a rule takes one, and returns one."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple, Union

import numpy as np

Rule = Callable[["Tensor"], "Tensor"]


class Tensor:
    def __init__(
        self, data: Union[float, list, np.ndarray], edges: Tuple[Tuple[Tensor, Rule], ...] = ()
    ) -> None:
        self.data: np.ndarray = np.asarray(data, dtype=np.float64)
        self.edges = edges
        self.grad: Optional[Tensor] = None

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor(self.data + other.data, ((self, lambda g: g), (other, lambda g: g)))

    def __mul__(self, other: Tensor) -> Tensor:
        def to_self(g: Tensor) -> Tensor:
            return Tensor(g.data * other.data)

        def to_other(g: Tensor) -> Tensor:
            return Tensor(g.data * self.data)

        return Tensor(self.data * other.data, ((self, to_self), (other, to_other)))

    def __matmul__(self, other: Tensor) -> Tensor:
        def to_self(g: Tensor) -> Tensor:
            return Tensor(g.data @ other.data.T)

        def to_other(g: Tensor) -> Tensor:
            return Tensor(self.data.T @ g.data)

        return Tensor(self.data @ other.data, ((self, to_self), (other, to_other)))

    def exp(self) -> Tensor:
        out = Tensor(np.exp(self.data))
        out.edges = ((self, lambda g: Tensor(g.data * out.data)),)
        return out

    def sum(self) -> Tensor:
        return Tensor(
            self.data.sum(), ((self, lambda g: Tensor(np.ones_like(self.data) * g.data)),)
        )

    def backward(self, grad: Optional[Tensor] = None) -> None:
        if grad is None:
            grad = Tensor(np.ones_like(self.data))
        order: List[Tensor] = []
        _sort(self, order)
        cotangents = {id(self): grad}
        for tensor in reversed(order):
            g = cotangents[id(tensor)]
            tensor.grad = g if tensor.grad is None else Tensor(tensor.grad.data + g.data)
            for parent, rule in tensor.edges:
                part = _match(rule(g), parent)
                if id(parent) in cotangents:
                    part = Tensor(cotangents[id(parent)].data + part.data)
                cotangents[id(parent)] = part


def _sort(tensor: Tensor, order: List[Tensor]) -> None:
    if any(tensor is other for other in order):
        return
    for parent, _ in tensor.edges:
        _sort(parent, order)
    order.append(tensor)


def _match(g: Tensor, parent: Tensor) -> Tensor:
    data = g.data.sum(axis=tuple(range(g.data.ndim - parent.data.ndim)))
    stretched = tuple(i for i, n in enumerate(parent.data.shape) if n == 1)
    return Tensor(data.sum(axis=stretched, keepdims=True))
