"""Other arguments for a call, which may show a difference that the tests' arguments hide.

Each variation changes one thing: the numbers of the cotangent, its layout, the numbers in arrays
that the call writes, those of all other arrays as well, which input needs a gradient, or whether
the gradient is differentiated again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from harness.core.run import NumericArray
from harness.core.vocabulary import Variation
from harness.runs.heap import arrays_in, is_jax, is_tensor

Runner = Callable[[Callable[..., Any]], Any]


def varied(
    kind: Variation,
    number: int,
    arguments: Mapping[str, Any],
    free: Sequence[str],
    targets: Sequence[NumericArray],
    roots: Mapping[str, Any],
    written: Collection[str],
) -> Runner:
    """Return what calls a function on other arguments.

    Parameters
    ----------
    number : int
        Which variation of this kind: the input that needs no gradient.
    free : sequence of str
        The arguments that may have any numbers: the cotangents, if they are known.
    targets : sequence of arrays
        The arrays that hold cotangents, if no argument does.
    roots : mapping
        Everything that the call can reach, by name; the caller restores it.
    written : collection of str
        The names of the arrays that the call writes.
    """
    given = dict(arguments)
    match kind:
        case "values" | "operands":
            for position, name in enumerate(free):
                given[name] = _mapped(given[name], partial(_other_values, number=position))
            for array in targets:
                array[...] = _other_values(array, 0)
            if kind == "operands":
                for position, name in enumerate(name for name in given if name not in free):
                    other = partial(_other_values, number=10 + position)
                    given[name] = _mapped(given[name], other, is_jax)
                _overwrite({k: v for k, v in roots.items() if k not in free}, targets)
        case "written":
            _overwrite(roots, (), written)
        case "layout":
            for name in free:
                given[name] = _mapped(given[name], _other_layout)
        case "frozen":
            first = next(iter(given))
            given[first] = Context(given[first], number)
        case "graph":
            return partial(_differentiated, given, free)
    return lambda function: function(*given.values())


class Context:
    """A context of PyTorch for which one input needs no gradient."""

    def __init__(self, context: Any, frozen: int) -> None:
        self._context = context
        needed = context.needs_input_grad
        self.needs_input_grad = (*needed[:frozen], False, *needed[frozen + 1 :])

    def __getattr__(self, name: str) -> Any:  # noqa: D105
        return getattr(self._context, name)


def _differentiated(
    given: Mapping[str, Any], free: Sequence[str], function: Callable[..., Any]
) -> Any:
    """Return the derivatives of the gradients that a rule of PyTorch returns."""
    torch = sys.modules["torch"]
    with torch.enable_grad():
        values = dict(given)
        for position, name in enumerate(free):
            draw = _mapped(values[name], partial(_other_values, number=position))
            values[name] = draw.requires_grad_() if is_tensor(draw) else draw
        results = function(*values.values())
        context = next(iter(given.values()))
        wrt = [values[name] for name in free if is_tensor(values[name])]
        wrt += [tensor for tensor in context.saved_tensors if tensor.requires_grad]
        found = []
        for result in results if isinstance(results, tuple) else (results,):
            if is_tensor(result) and result.requires_grad:
                # Not weighted: PyTorch sums a gradient that has more axes than its input.
                found.append(torch.autograd.grad(result.sum(), wrt, allow_unused=True))
            else:
                found.append(tuple(None for _ in wrt))
        return found


def _overwrite(
    roots: Mapping[str, Any],
    targets: Sequence[NumericArray],
    names: Collection[str] | None = None,
) -> None:
    """Write other numbers into the arrays of floating-point numbers, or those of these names."""
    owners = [id(target) for target in targets]
    for number, (name, value) in enumerate(roots.items()):
        parts = list(arrays_in(value, name))
        if hasattr(value, "saved_tensors"):
            parts += [("", tensor) for tensor in value.saved_tensors]
        for position, (label, part) in enumerate(parts):
            seed = 10 + 100 * number + position
            if names is not None and label not in names:
                continue
            if is_tensor(part):
                if part.is_floating_point():
                    part.data.copy_(_other_values(part, seed))
            elif _is_free(part) and id(part) not in owners:
                part[...] = _other_values(part, seed)


def _is_free(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "f" and part.flags.writeable


def _mapped(
    value: Any,
    change: Callable[[Any], Any],
    chosen: Callable[[Any], bool] = lambda _: True,
) -> Any:
    """Return a value with other arrays, or the same if it has none that are chosen."""
    if isinstance(value, tuple):
        return tuple(_mapped(item, change, chosen) for item in value)
    if (isinstance(value, np.ndarray) or is_jax(value)) and value.dtype.kind == "f":
        return change(value) if chosen(value) else value
    if is_tensor(value) and value.is_floating_point():
        return change(value) if chosen(value) else value
    return value


def _other_values(array: Any, number: int) -> Any:
    """Return random numbers of both signs, in the shape and dtype of an array."""
    random = np.random.default_rng(number)
    draw = np.asarray(random.uniform(0.5, 2.0, tuple(array.shape)))
    signs = 1 - 2 * ((np.arange(draw.size) + number) % 2)  # so that even two numbers have both
    draw = draw * signs.reshape(draw.shape)
    if is_jax(array):
        return sys.modules["jax"].numpy.asarray(draw, dtype=array.dtype)
    if not is_tensor(array):
        return draw.astype(array.dtype)
    torch = sys.modules["torch"]
    return torch.from_numpy(np.array(draw)).to(dtype=array.dtype, device=array.device)


def _other_layout(array: Any) -> Any:
    """Return an array with the same numbers, which is not contiguous."""
    if array.ndim == 0 or is_jax(array):
        return array
    if not is_tensor(array):
        return np.stack([array, array], axis=-1)[..., 0]
    return sys.modules["torch"].stack([array.detach()] * 2, dim=-1)[..., 0]
