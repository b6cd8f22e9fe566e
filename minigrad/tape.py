"""`GradientTape`: TensorFlow's way to ask the same graph for gradients."""

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
    all tapes: what the outer of two nested tapes shall still be asked, the inner has to keep, with
    `persistent=True`.
    """

    def __init__(self, persistent: bool = False) -> None:
        """A tape answers once; a `persistent` one as often as asked, and keeps the graph for it."""
        self.persistent = persistent
        self._answered = False
        self._watched: list[Tensor] = []
        self._inside = ExitStack()

    def __enter__(self) -> Self:
        """Begin to watch."""
        return self

    def __exit__(self, *_: object) -> None:
        """The watched tensors are again what they were."""
        self._inside.close()

    def watch(self, tensor: Tensor) -> None:
        """Record what is computed from `tensor` on. Raises TypeError if it is no float tensor."""
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
        """The gradients of `target` with regard to `sources`, in the structure of `sources`.

        `sources` is a tensor, or lists, tuples and dicts of tensors. Each tensor's place is taken
        by an array of its shape; by None if it was not watched or the target does not depend on it.

        A target of more than one element is *summed*: the result is the gradient of
        `target.sum()`, one array for all elements and not one for each, as in TensorFlow, and
        nothing warns of it. `backward()`, PyTorch and JAX refuse such a target. Other weights than
        1 are `output_gradients`, of the target's shape.

        Raises RuntimeError if the tape has answered before and is not persistent; else as
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
    """Let the tensors require a gradient, and then be what they were."""
    before = [tensor.requires_grad for tensor in tensors]
    for tensor in tensors:
        tensor.requires_grad = True
    try:
        yield
    finally:
        for tensor, required in zip(tensors, before, strict=True):
            tensor.requires_grad = required


def _map(function: Callable[[Tensor], Any], structure: Any) -> Any:
    """The same structure with `function(tensor)` for each tensor, in order."""
    if isinstance(structure, Tensor):
        return function(structure)
    if isinstance(structure, Mapping):
        return {key: _map(function, value) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return type(structure)(_map(function, value) for value in structure)
    raise TypeError(
        f"sources are tensors, or lists, tuples and dicts of them, not a {type(structure).__name__}"
    )
