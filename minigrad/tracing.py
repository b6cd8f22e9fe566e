"""A trace: what every node got and handed on in a backward walk, to find where two walks part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from minigrad.types import Array, Cotangents


@dataclass(frozen=True, eq=False)
class Step:
    """One node of the walk. The arrays are copies: nothing that comes later changes them."""

    index: int
    """Its place in the topological order: parents have smaller ones than their children."""
    op: str
    """The name of its op; empty for a leaf."""
    parents: tuple[int | None, ...]
    """Their indices; None for an operand that needs no gradient and is not walked."""
    value: Array
    cotangent: Array
    """What arrived, complete, after the node's hooks."""
    handed: Cotangents
    """What its rule handed on, one per parent; empty for a leaf."""


tracing: ContextVar[list[Step] | None] = ContextVar("tracing", default=None)
"""Where steps are recorded: nowhere, unless inside `trace`."""


@contextmanager
def trace() -> Iterator[list[Step]]:
    """Record the steps of each `backward()` inside, in the order of the walk: outputs first.

    `with trace() as steps:` holds for this thread only. A walk that fails leaves the steps up to
    the node that failed. Indices start again with each walk.
    """
    steps: list[Step] = []
    token = tracing.set(steps)
    try:
        yield steps
    finally:
        tracing.reset(token)
