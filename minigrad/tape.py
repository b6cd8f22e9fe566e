"""`GradientTape`: TensorFlow's interface to the gradients of the same graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from minigrad.functions import grad
from minigrad.tensor import Tensor


class GradientTape:
    """`with GradientTape() as tape:` compute; then `tape.gradient(target, sources)`.

    As in TensorFlow, leaves that require a gradient are watched from the start (they stand for its
    trainable variables), others from `watch` on. No tensor's `grad` changes. There is one graph for
    all tapes: if the outer of two nested tapes is to be used after the inner, the inner must keep
    the graph, with `persistent=True`.
    """

    def __init__(self, persistent: bool = False) -> None:
        """A tape can be used once; a `persistent` one keeps the graph for any number of uses."""
        self.persistent = persistent
        self._answered = False
        self._watched: list[Tensor] = []
        self._inside = ExitStack()

    def __enter__(self) -> Self:
        """Start watching."""
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the watched tensors."""
        self._inside.close()

    def watch(self, tensor: Tensor) -> None:
        """Record what is computed from `tensor`. Raises TypeError if it is not a float tensor."""
        if tensor.dtype.kind != "f":
            raise TypeError(
                f"only floating-point tensors can be watched, and this one is {tensor.dtype}: "
                "write 1.0 instead of 1, or pass dtype=float"
            )
        self._watched.append(tensor)
        self._inside.enter_context(_requiring_grad([tensor]))

    def gradient(
        self, target: Tensor, sources: Any, output_gradients: ArrayLike | None = None
    ) -> Any:
        """Return the gradients of `target` for `sources`, in the structure of `sources`.

        `sources` is a tensor, or lists, tuples and dicts of tensors. Each tensor's place is taken
        by an array of its shape; by None if it was not watched or the target does not depend on it.

        A target of more than one element is *summed*: the result is the gradient of
        `target.sum()`, one array for all elements and not one for each, as in TensorFlow, and
        without a warning. `backward()`, PyTorch and JAX refuse such a target. Weights other than 1
        are passed as `output_gradients`, of the target's shape.

        Raises RuntimeError if the tape has been used before and is not persistent; otherwise like
        `Tensor.backward`.
        """
        if self._answered and not self.persistent:
            raise RuntimeError(
                "this tape has answered, and its graph is gone: ask for all sources at once, "
                "gradient(target, [a, b]), or make it with GradientTape(persistent=True)"
            )
        asked: list[Tensor] = []
        _map(asked.append, sources)
        weights = np.ones_like(target.data) if output_gradients is None else output_gradients
        with _requiring_grad(self._watched):
            if not target.requires_grad:
                return _map(lambda _: None, sources)
            answers = grad(target, asked, weights, retain_graph=self.persistent)
        self._answered = True
        return _map(dict(zip(asked, answers, strict=True)).get, sources)


@contextmanager
def _requiring_grad(tensors: list[Tensor]) -> Iterator[None]:
    """Let the tensors require a gradient, and restore them at the end."""
    before = [tensor.requires_grad for tensor in tensors]
    for tensor in tensors:
        tensor.requires_grad = True
    try:
        yield
    finally:
        for tensor, required in zip(tensors, before, strict=True):
            tensor.requires_grad = required


def _map(function: Callable[[Tensor], Any], structure: Any) -> Any:
    """Return the same structure with `function(tensor)` for each tensor, in order."""
    if isinstance(structure, Tensor):
        return function(structure)
    if isinstance(structure, Mapping):
        return {key: _map(function, value) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return type(structure)(_map(function, value) for value in structure)
    raise TypeError(
        f"sources are tensors, or lists, tuples and dicts of them, not a {type(structure).__name__}"
    )
