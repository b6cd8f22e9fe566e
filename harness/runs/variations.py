"""Other arguments for a call, which may show a difference that the tests' arguments hide.

Each variation changes one thing: the numbers of the cotangent, its layout, the numbers in arrays
that the call writes, those of all other arrays as well, which input needs a gradient, or whether
the gradient is differentiated again.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from harness.core.vocabulary import Variation
from harness.runs.heap import arrays_in, attributes, is_jax, is_tensor

Runner = Callable[[Callable[..., Any]], Any]


@dataclass(frozen=True, eq=False)
class Target:
    """An attribute of an object that holds an array or a number."""

    owner: object
    name: str

    @property
    def value(self) -> Any:
        """What it holds."""
        return getattr(self.owner, self.name, None)

    @property
    def is_free(self) -> bool:
        """Whether other numbers can be written there; a whole number may be a cotangent, too."""
        return _is_free(self.value) or type(self.value) is int or isinstance(self.value, float)

    def is_one_of(self, targets: Sequence[Target]) -> bool:
        """Whether another is the same attribute; an engine may define `==` for its objects."""
        return any(one.owner is self.owner and one.name == self.name for one in targets)

    def overwrite(self, number: int) -> None:
        """Write other numbers there, in place if they are in an array."""
        if isinstance(self.value, np.ndarray):
            self.value[...] = _other_values(self.value, number)
        else:
            object.__setattr__(self.owner, self.name, _other_values(self.value, number))


def varied(
    kind: Variation,
    number: int,
    arguments: Mapping[str, Any],
    free: Sequence[str],
    targets: Sequence[Target],
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
    targets : sequence of targets
        What holds the cotangents, if no argument does.
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
            for target in targets:
                target.overwrite(0)
            if kind == "operands":
                for position, name in enumerate(name for name in given if name not in free):
                    other = partial(_other_values, number=10 + position)
                    given[name] = _mapped(given[name], other, _is_constant)
                _overwrite({k: v for k, v in roots.items() if k not in free}, targets)
                return partial(_with_other_numbers, given)
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


def _with_other_numbers(given: Mapping[str, Any], function: Callable[..., Any]) -> Any:
    """Call a function with other numbers in the variables of enclosing functions that it uses."""
    code, contents = function.__code__, closure(function)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    contents = {name: value for name, value in contents.items() if isinstance(value, float)}
    try:
        for name, value in contents.items():  # both versions get the same numbers
            cells[name].cell_contents = _other_values(value, crc32(name.encode()))
        return function(*given.values())
    finally:
        for name, value in contents.items():
            cells[name].cell_contents = value


def closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function uses."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            found[name] = cell.cell_contents
    return found


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
    targets: Sequence[Target],
    names: Collection[str] | None = None,
) -> None:
    """Write other numbers into the arrays of floating-point numbers, or those of these names."""
    arrays = [id(target.value) for target in targets]
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
            elif _is_free(part) and id(part) not in arrays:
                part[...] = _other_values(part, seed)
        for position, attribute in enumerate(attributes(value)):
            target = Target(value, attribute)
            is_chosen = names is None or f"{name}.{attribute}" in names
            if is_chosen and isinstance(target.value, float) and not target.is_one_of(targets):
                target.overwrite(50 + 100 * number + position)


def _is_constant(value: Any) -> bool:
    """Whether nothing can be written into a value, so that another one takes its place."""
    return is_jax(value) or isinstance(value, float)


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
    if isinstance(value, float) or (is_tensor(value) and value.is_floating_point()):
        return change(value) if chosen(value) else value
    return value


def _other_values(array: Any, number: int) -> Any:
    """Return random numbers of both signs, in the shape and dtype of an array; or one number."""
    random = np.random.default_rng(number)
    draw = np.asarray(random.uniform(0.5, 2.0, np.shape(array)))
    signs = 1 - 2 * ((np.arange(draw.size) + number) % 2)  # so that even two numbers have both
    draw = draw * signs.reshape(draw.shape)
    if isinstance(array, int | float):
        return float(draw)
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
