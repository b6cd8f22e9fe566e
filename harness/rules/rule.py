"""The records of a rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Form(StrEnum):
    """How a rule is written."""

    TORCH = "torch.autograd.Function"
    LIBRARY = "torch.library.register_autograd"
    JAX = "jax.custom_vjp"
    HIPS = "autograd.defvjp"
    CLASS = "class"
    """A class with `forward` or `compute`, and `backward`, `gradient` or `vjp`."""
    CLOSURE = "closure"
    """A function that an op returns or stores in its result."""
    FUNCTION = "function"
    """A function of a module whose name says that it is the backward pass of another one."""


Side = Literal["forward", "backward"]
"""Whether a function computes the gradient, or saves what the gradient needs."""


@dataclass(frozen=True)
class RuleFunction:
    """A function of a rule."""

    name: str
    """Without the name of the rule: `backward`."""
    side: Side
    line: int
    start: int
    """The offset in bytes of its `def` or `lambda`."""
    cotangents: tuple[str, ...]
    """The expressions that are a cotangent here: `grad_output`, `grads[0]`, `out.grad`."""


@dataclass(frozen=True)
class Rule:
    """A backward rule that somebody wrote by hand."""

    name: str
    file: str
    form: Form
    functions: tuple[RuleFunction, ...]
    inputs: tuple[str, ...] = ()
    """The names of its inputs, of a `torch.autograd.Function` only; () if they are not known."""

    @property
    def cotangents(self) -> tuple[str, ...]:
        """The expressions that are a cotangent in one of its functions."""
        return tuple(dict.fromkeys(c for one in self.functions for c in one.cotangents))
