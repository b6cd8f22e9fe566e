"""A function of PyTorch, called on copies of its inputs; gradients, cotangents, and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

try:
    import torch
    from torch.autograd.gradcheck import GradcheckError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("check_rule needs PyTorch: pip install torch") from error

__all__ = ["GradcheckError", "torch"]

Tensors = tuple[Any, ...]
"""Tensors of PyTorch, which mypy does not see."""

ROUNDINGS = 32
"""How many units in the last place a gradient may differ, relative to the sum of the absolute
values of its terms."""

EXACT = 1e-9
"""How far two results in float64 may differ, relative to the same sum."""


class RuleError(AssertionError):
    """A backward rule is wrong; `check` is the name of the check that noticed."""

    def __init__(
        self, check: str, problem: str, details: Sequence[str] = (), cause: str = ""
    ) -> None:
        likely = [f"likely cause: {cause}"] if cause else []
        super().__init__("\n  ".join([f"{problem} (check `{check}`)", *details, *likely]))
        self.check, self.problem, self.details, self.cause = check, problem, details, cause


@dataclass(frozen=True)
class Trial:
    """One call of the function."""

    given: Tensors
    """The inputs that the function got: of the wanted ones, copies that are not leaves."""
    leaves: Tensors
    """The wanted inputs, in order."""
    outputs: Tensors
    """Its outputs that are floating-point tensors."""

    @property
    def differentiable(self) -> tuple[int, ...]:
        """The numbers of the outputs that require a gradient."""
        return tuple(n for n, out in enumerate(self.outputs) if out.requires_grad)

    def gradients(
        self, cotangents: Sequence[Any], *, keep: bool = False, graph: bool = False
    ) -> Tensors:
        """Return the gradients of the leaves for a cotangent of each output, or None for none."""
        chosen = [n for n in self.differentiable if cotangents[n] is not None]
        if not chosen:
            return tuple(map(torch.zeros_like, self.leaves))
        found = torch.autograd.grad(
            [self.outputs[n] for n in chosen],
            self.leaves,
            [cotangents[n] for n in chosen],
            retain_graph=keep or graph,
            create_graph=graph,
            allow_unused=True,
        )
        pairs = zip(found, self.leaves, strict=True)
        given = tuple(torch.zeros_like(leaf) if g is None else g for g, leaf in pairs)
        return given if graph else tuple(gradient.detach() for gradient in given)


@dataclass(frozen=True)
class Subject:
    """A function, and inputs on which it is called."""

    fn: Callable[..., Any]
    inputs: Tensors
    """Its arguments: floating-point tensors are detached copies in float64."""
    wanted: tuple[int, ...]
    """The numbers of the inputs that require a gradient."""
    seed: int

    def run(
        self,
        inputs: Tensors | None = None,
        wanted: Sequence[int] | None = None,
        context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Trial:
        """Call the function on copies of the inputs."""
        inputs = self.inputs if inputs is None else inputs
        wanted = self.wanted if wanted is None else wanted
        copies = [v.detach().clone() if is_tensor(v) else v for v in inputs]
        leaves = tuple(copies[n].requires_grad_() for n in wanted)
        given = tuple(v.clone() if n in wanted else v for n, v in enumerate(copies))
        with context():
            outputs = outputs_of(self.fn(*given))
        return Trial(given, leaves, outputs)

    def leaves(self) -> Tensors:
        """Return new copies of the wanted inputs."""
        return tuple(self.inputs[n].detach().clone().requires_grad_() for n in self.wanted)

    def composed(self) -> Callable[..., Tensors]:
        """Return the function of the wanted inputs alone, on copies that it may write into."""

        def function(*leaves: Any) -> Tensors:
            values = [v.clone() if is_tensor(v) else v for v in self.inputs]
            for n, leaf in zip(self.wanted, leaves, strict=True):
                values[n] = leaf.clone()
            return outputs_of(self.fn(*values))

        return function

    @cached_property
    def shapes(self) -> tuple[Any, ...]:
        """The outputs of a call, for their shapes, dtypes and devices."""
        return tuple(out.detach() for out in self.run().outputs)

    @cached_property
    def cotangents(self) -> Tensors:
        """A random contiguous cotangent of each output, in float64."""
        generator = torch.Generator().manual_seed(self.seed)
        return tuple(
            torch.randn(tuple(out.shape), generator=generator, dtype=torch.float64).to(out)
            for out in self.shapes
        )

    @cached_property
    def jacobian(self) -> list[list[Tensors]]:
        """For each output, the rule's gradients for each cotangent that is 1 in one place."""
        zeros = [torch.zeros_like(out) for out in self.shapes]
        table = []
        for number, zero in enumerate(zeros):
            rows = []
            for position in range(zero.numel()):
                hot = torch.zeros_like(zero).reshape(-1)
                hot[position] = 1
                cotangents = [*zeros[:number], hot.reshape(zero.shape), *zeros[number + 1 :]]
                rows.append(self.run().gradients(cotangents))
            table.append(rows)
        return table

    def expected(self, cotangents: Sequence[Any]) -> tuple[Tensors, tuple[float, ...]]:
        """Return the gradients for cotangents by linearity, and the largest sum of their terms.

        The sum is of absolute values: what the gradient would be if no two terms cancelled.
        """
        sums = [torch.zeros_like(self.inputs[n]) for n in self.wanted]
        sizes = [torch.zeros_like(self.inputs[n]) for n in self.wanted]
        for rows, cotangent in zip(self.jacobian, cotangents, strict=True):
            if cotangent is None:
                continue
            flat = cotangent.to(torch.float64).reshape(-1)
            for weight, gradients in zip(flat, rows, strict=True):
                for total, size, gradient in zip(sums, sizes, gradients, strict=True):
                    total += weight * gradient
                    size += (weight * gradient).abs()
        return tuple(sums), tuple(largest(size) for size in sizes)


def is_tensor(value: object) -> bool:
    """Say whether a value is a tensor."""
    return isinstance(value, torch.Tensor)


def is_float(value: Any) -> bool:
    """Say whether a value is a tensor of real floating-point numbers."""
    return is_tensor(value) and bool(value.is_floating_point())


def outputs_of(result: Any) -> Tensors:
    """Return the floating-point tensors among the results of a call."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(one for one in results if is_float(one))


def largest(values: Any) -> float:
    """Return the largest absolute value, 0 for an empty tensor."""
    return float(values.detach().abs().max()) if values.numel() else 0.0


def same(first: Any, second: Any) -> bool:
    """Say whether two tensors are equal, where any NaN equals any NaN, and 0 equals -0."""
    return first.shape == second.shape and bool(
        torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)
    )


def layouts(cotangent: Any) -> Iterator[tuple[str, Any]]:
    """Yield cotangents of one shape in several layouts, each with the name of its layout."""
    shape = cotangent.shape
    yield "contiguous", cotangent.clone()
    if cotangent.ndim > 1:
        reverse = tuple(reversed(range(cotangent.ndim)))
        yield "transposed", cotangent.permute(reverse).contiguous().permute(reverse)
    if cotangent.ndim:
        wide = torch.zeros((*shape[:-1], 2 * shape[-1]), dtype=cotangent.dtype).to(cotangent)
        wide[..., ::2] = cotangent
        wide[..., 1::2] = 7.0
        yield "every second element of a larger tensor", wide[..., ::2]
    longer = torch.cat([cotangent.new_full((3,), 7.0), cotangent.reshape(-1)])
    yield "stored after the beginning of a larger tensor", longer[3:].view(shape)
    if cotangent.numel() > 1:
        first = cotangent.reshape(-1)[0]
        yield "broadcast from one number, as by `.sum().backward()`", first.expand(shape)
    for axis, length in enumerate(shape):
        if cotangent.ndim > 1 and length > 1:
            row = cotangent.narrow(axis, 0, 1)
            yield f"broadcast along axis {axis}", row.clone().expand(shape)


def difference(actual: Any, expected: Any, tolerance: float) -> tuple[str, str] | None:
    """Describe the largest difference of two tensors beyond an absolute tolerance, if any."""
    if actual.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}", f"got shape      {tuple(actual.shape)}"
    left, right = actual.detach().double(), expected.detach().double()
    gap = (left - right).abs()
    unequal = ~(gap <= tolerance) & ~(left == right) & ~(left.isnan() & right.isnan())
    if not bool(unequal.any()):
        return None
    gap = torch.where(unequal, gap.nan_to_num(nan=torch.inf), -1.0)
    index = [int(i) for i in torch.unravel_index(gap.argmax(), gap.shape)]
    at = f" at {index}" if index else ""
    return (
        f"expected {float(right[tuple(index)]):.6g}{at}",
        f"got      {float(left[tuple(index)]):.6g}",
    )
